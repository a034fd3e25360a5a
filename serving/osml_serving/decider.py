"""Runs the policies, and keeps what goes wrong in them away from the server."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from typing import Protocol

from osml.domain import Decision, Observation
from osml.policies.decide import RequestError, decide
from osml.policies.registry import policy_names
from osml_serving.errors import ApiError
from osml_serving.verify import decision_error


class Decide(Protocol):
    """`osml.policies.decide.decide`, or a stand-in: a pure function of the observation."""

    def __call__(self, observation: Observation, default_policy: str = "arq", seed: int = 0) -> Decision:
        """The decision; raises the refusal type where the observation makes no sense."""
        ...


class PolicyFailedError(Exception):
    """A policy raised or answered with something illegal. `detail` is for the log, not for the client."""

    def __init__(self, message: str, detail: str) -> None:
        super().__init__(message)
        self.detail = detail


class Decider:
    """Policies as the server uses them: `policies` are their names, `refusal` what `decide` raises on bad input."""

    def __init__(
        self, decide: Decide, policies: Iterable[str], refusal: type[Exception], default_policy: str, seed: int
    ) -> None:
        self._decide = decide
        self._refusal = refusal
        self.policies = sorted(policies)
        self.default_policy = default_policy
        self.seed = seed

    def __call__(self, observation: Observation) -> Decision:
        """A legal decision. Raises ApiError (the input's fault) or PolicyFailedError (ours)."""
        try:
            decision = self._decide(observation, default_policy=self.default_policy, seed=self.seed)
        except self._refusal as error:
            field = getattr(error, "field", None)
            raise ApiError(
                422, "request_refused", str(error), field=field if isinstance(field, str) else None
            ) from None
        except Exception as error:
            raise PolicyFailedError(f"the policy raised {type(error).__name__}", traceback.format_exc()) from error
        fault = decision_error(observation, decision)
        if fault is not None:
            raise PolicyFailedError("the policy answered with an illegal decision", f"illegal decision: {fault}")
        return decision


def installed_decider(default_policy: str, seed: int) -> Decider:
    """The policies of the installed osml, and of packages that plug into it."""
    return Decider(decide, policy_names(), RequestError, default_policy, seed)
