"""Readiness: the server takes decisions after its warm-up, until it stops."""

from __future__ import annotations

import traceback

import msgspec
from prometheus_client import Gauge

from osml.base.failure import Failure
from osml_serving.decider import Decider, PolicyFailedError
from osml_serving.errors import ApiError
from osml_serving.example import EXAMPLE
from osml_serving.log import Log


class Readiness:
    """`reason` says why the server is not ready; None means ready. Liveness does not depend on it."""

    def __init__(self, gauge: Gauge) -> None:
        self.reason: str | None = "the server is starting: the warm-up of the policies is not complete"
        self.draining = False
        gauge.set_function(lambda: self.reason is None)

    def warm_up(self, decider: Decider, log: Log) -> None:
        """Let every policy decide once, so that the first node does not pay for imports and caches.

        The server is ready where its default policy decides. Another policy that fails is unavailable: a library that
        one optional policy needs must not keep all nodes without decisions.
        """
        blocked: str | None = None
        for policy in list(decider.policies):
            if policy in decider.slow:  # its own process warms it up
                continue
            try:
                decider(msgspec.structs.replace(EXAMPLE, policy=policy))
            except (ApiError, PolicyFailedError) as error:
                reason = f"policy '{policy}' failed in the warm-up: {error}"
                detail = error.detail if isinstance(error, PolicyFailedError) else traceback.format_exc()
                log.fault("warm_up", reason, detail)
                if policy == decider.default_policy:
                    blocked = reason
                else:
                    decider.withdraw(policy, str(error.__cause__ if isinstance(error.__cause__, Failure) else error))
        if blocked is None and decider.default_policy in decider.unavailable:
            blocked = f"policy '{decider.default_policy}' failed in the warm-up"
            blocked += f": {decider.unavailable[decider.default_policy]}"
        if not self.draining:
            self.reason = blocked

    def drain(self) -> None:
        """Tell load balancers to look elsewhere; requests that still come are answered. Safe in a signal handler."""
        self.draining = True
        self.reason = "the server is stopping"
