"""A policy's state on its way to the agent and back: base64url of msgpack {policy, version, state}, decoded by type."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from osml.allocation.policy import Policy
from osml.decide.request import RequestError


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    policy: str
    version: int
    state: msgspec.Raw


_HINT = "send back the string of the last decision unchanged, or null to start afresh"


_STANDARD = bytes.maketrans(b"-_", b"+/")
"""From the letters of base64url to those of base64."""


def seal_state(policy: Policy, state: Any) -> str:
    """The state as an opaque string of ASCII letters."""
    envelope = _Envelope(policy.name, policy.version, msgspec.Raw(msgspec.msgpack.encode(state)))
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(envelope)).decode("ascii")


def open_state(text: str, policy: Policy) -> tuple[Any, str | None]:
    """The state in such a string, or (None, why it is of no use to this policy).

    Raises RequestError where the string is not something that `seal_state` wrote.
    """
    try:
        packed = binascii.a2b_base64(text.encode("ascii").translate(_STANDARD), strict_mode=True)
        envelope = msgspec.msgpack.decode(packed, type=_Envelope)
        if envelope.policy != policy.name:
            return None, f"policy switched from '{envelope.policy}' to '{policy.name}': its state is discarded"
        if envelope.version != policy.version:
            return None, (
                f"the state of '{policy.name}' has version {envelope.version} and is discarded; "
                f"this policy has version {policy.version}"
            )
    except (UnicodeError, binascii.Error, msgspec.DecodeError, RecursionError) as error:
        raise RequestError(
            f"policy_state is not a state of this scheduler ({error}); {_HINT}", "policy_state"
        ) from error
    try:
        return msgspec.msgpack.decode(envelope.state, type=policy.State), None
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:  # of a build with other types, for one
        return None, f"the state of '{policy.name}' cannot be read and is discarded: {error}"
