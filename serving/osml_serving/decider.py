"""Runs the policies, and turns their faults into errors of the API."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from functools import cache
from typing import Protocol

import msgspec

from osml.allocation.policy import Policy, TakesModels, is_slow
from osml.decide.decide import RequestError, decide_by
from osml.decide.legality import decision_error
from osml.decide.registry import DEFAULT_POLICY, load_policy, policy_names
from osml.domain import Decision, Observation, Reason
from osml_serving.errors import ApiError
from osml_serving.models.shelf import ModelShelf

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Decision)


class Decide(Protocol):
    """As `osml.decide.decide.decide`: a pure function of the observation."""

    def __call__(self, observation: Observation, default_policy: str = DEFAULT_POLICY, seed: int = 0) -> Decision:
        """The decision; raises the refusal type where the observation makes no sense."""
        ...


class PolicyFailedError(Exception):
    """A policy raised, or its decision is illegal or cannot be sent. `detail` is for the log, not for the client."""

    def __init__(self, message: str, detail: str) -> None:
        super().__init__(message)
        self.detail = detail


class Decider:
    """Policies as the server uses them: `policies` are their names, `refusal` what `decide` raises on bad input.

    `unavailable` are installed policies that may not or cannot decide here, and why. `slow` policies may take long, so
    they decide in processes of their own. `takes_models` says which decide with the models of the server.
    """

    def __init__(
        self,
        decide: Decide,
        policies: Iterable[str],
        refusal: type[Exception],
        default_policy: str,
        seed: int,
        slow: Iterable[str] = (),
        takes_models: Callable[[str], bool] = lambda _policy: False,
    ) -> None:
        self._decide = decide
        self._refusal = refusal
        self.policies = sorted(policies)
        self.unavailable: dict[str, str] = {}
        self.slow = frozenset(slow)
        self.default_policy = default_policy
        self.seed = seed
        self.takes_models = takes_models
        self.discarded: Callable[[str, str], None] = lambda _policy, _detail: None

    def __call__(self, observation: Observation) -> Decision:
        """A legal decision. Raises ApiError (the input's fault) or PolicyFailedError (ours).

        A policy that fails with the state of the observation decides without it: states come from outside, and the
        types of a policy do not say everything about them. `discarded` then gets the policy and the details.
        """
        self.refuse_unavailable(observation)
        try:
            return self._legal(observation)
        except PolicyFailedError as error:
            if observation.policy_state is None:
                raise
            decision = self._legal(msgspec.structs.replace(observation, policy_state=None))
            self.discarded(decision.policy, error.detail)
            note = Reason(text=f"the policy cannot use its state ({error}): it starts anew")
            return msgspec.structs.replace(decision, reasons=[note, *decision.reasons])

    def _legal(self, observation: Observation) -> Decision:
        try:
            decision = self._decide(observation, default_policy=self.default_policy, seed=self.seed)
        except self._refusal as error:
            field = getattr(error, "field", None)
            raise ApiError(
                422, "request_refused", str(error), field=field if isinstance(field, str) else None
            ) from None
        except Exception as error:
            raise PolicyFailedError(f"it raised {type(error).__name__}", traceback.format_exc()) from error
        fault = decision_error(observation, decision)
        if fault is not None:
            raise PolicyFailedError("its decision is illegal", f"illegal decision: {fault}")
        try:  # msgspec checks no value when a policy makes one, and sends a NaN as null
            _decoder.decode(_encoder.encode(decision))
        except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
            raise PolicyFailedError("its decision cannot be sent", repr(error)) from error
        return decision

    def refuse_unavailable(self, observation: Observation) -> None:
        """Raise ApiError where the policy that the observation names, or the default policy, is not available."""
        policy = observation.policy or self.default_policy
        if policy in self.unavailable:
            raise ApiError(
                422,
                "policy_unavailable",
                f"policy '{policy}' is not available on this server: "
                f"{self.unavailable[policy]}; expected one of {', '.join(self.policies)}",
                field="policy",
            )

    def withdraw(self, policy: str, reason: str) -> None:
        """Take a policy out of use; observations that name it are refused with the reason."""
        self.policies = [name for name in self.policies if name != policy]
        self.unavailable[policy] = reason


def installed_decider(
    default_policy: str, seed: int, shelf: ModelShelf | None = None, allowed: Iterable[str] | None = None
) -> Decider:
    """The policies of the installed osml, and of packages that plug into it; with the models of a shelf where given.

    Installed policies that are not `allowed` (None: all are) are unavailable.
    """
    names = policy_names()

    @cache
    def policy_of(name: str) -> Policy:
        return _with_models(load_policy(name), shelf)

    def decide(observation: Observation, default_policy: str = default_policy, seed: int = seed) -> Decision:
        name = observation.policy or default_policy
        if name not in names:
            raise RequestError(f"policy '{name}' is unknown, expected one of {', '.join(names)}", "policy")
        return decide_by(policy_of(name), observation, seed)

    decides = names if allowed is None else sorted(set(allowed) & set(names))
    decider = Decider(decide, decides, RequestError, default_policy, seed, filter(_is_slow, decides), _takes_models)
    for name in sorted(set(names) - set(decides)):
        decider.withdraw(name, "the operator does not allow it (--policies)")
    return decider


def _is_slow(name: str) -> bool:
    """Whether a policy may take long; one that cannot be loaded says so in its warm-up."""
    try:
        return is_slow(load_policy(name))
    except Exception:
        return False


def _takes_models(name: str) -> bool:
    try:
        return isinstance(load_policy(name), TakesModels)
    except Exception:  # one that cannot be loaded says so in its warm-up
        return False


def _with_models(policy: Policy, shelf: ModelShelf | None) -> Policy:
    return policy.with_models(shelf.models_of) if shelf is not None and isinstance(policy, TakesModels) else policy
