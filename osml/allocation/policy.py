"""What a policy is: a pure function of an observation and its own state, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self, runtime_checkable

from msgspec import Struct

from osml.domain import Forecast, Infeasible, Observation, Partition, Reason, Service


class Plan(Struct, frozen=True):
    """What a policy wants until the next observation, and why. There is always at least one reason.

    `forecasts` are what models said of the services, where the policy asked any.
    """

    partition: Partition
    reasons: list[Reason]
    infeasible: Infeasible | None = None
    forecasts: list[Forecast] = []


class Policy(Protocol):
    """A policy named in the entry point group `osml.policies`.

    `State` is a msgspec struct: it travels to the agent and back between two decisions, so that any server can answer
    the next observation. Raise `version` when its meaning changes: older states are then discarded, not misread.
    """

    name: str
    version: int
    State: type[Any]

    def initial(self, observation: Observation, seed: int) -> Any:
        """State before the first decision. Everything random derives from `seed`."""
        ...

    def decide(self, observation: Observation, state: Any) -> tuple[Plan, Any]:
        """The plan for this observation and the state for the next one."""
        ...


@runtime_checkable
class TakesModels(Protocol):
    """A policy that decides with models, and can be given others than the shipped ones."""

    def with_models(self, models_of: Callable[[str], Any]) -> Self:
        """The same policy with the models that `models_of` has for a platform id."""
        ...


def is_slow(policy: Policy) -> bool:
    """True where a policy says of itself (`slow = True`) that a decision may take longer than a few milliseconds.

    The server runs it in a process of its own, with a deadline.
    """
    return getattr(policy, "slow", False) is True


def decides_whole_node(policy: Policy) -> bool:
    """True where a policy says of itself (`whole_node = True`) that it always decides for the node as a whole.

    For the others services are placed in cache domains, and the policy decides for each domain.
    """
    return getattr(policy, "whole_node", False) is True


def latency_text(service: Service) -> str:
    """A service's latency against its target: "p99 12.4 ms is above the target of 10 ms (slack -0.24)"."""
    if service.latency_ms is None or service.target_ms is None or service.slack is None:
        return f"no {service.percentile} was measured in this interval"
    side = "above" if service.latency_ms > service.target_ms else "within"
    return (
        f"{service.percentile} {service.latency_ms:.4g} ms is {side} the target of {service.target_ms:.4g} ms "
        f"(slack {service.slack:.2f})"
    )
