"""OMBM: memory bandwidth for one LC service from profiles under the worst contention (Sung et al., Cluster 2018)."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from osml.domain import Infeasible, Observation, Reason
from osml.policies.even import Even, EvenState
from osml.policies.policy import Plan


class OmbmState(Struct, frozen=True):
    """Nothing to remember yet."""


class Ombm:
    """Bandwidth for the LC service by its profile; the rest for best effort."""

    name = "ombm"
    version = 1
    State = OmbmState

    def initial(self, observation: Observation, seed: int) -> OmbmState:
        """Nothing in OMBM is random."""
        return OmbmState()

    def decide(self, observation: Observation, state: OmbmState) -> tuple[Plan, OmbmState]:
        """Equal parts, and why OMBM can't do better here."""
        plan, _ = Even().decide(observation, EvenState())
        why = "ombm has no bandwidth profile of any service here"
        names = [service.name for service in observation.services]
        return replace(plan, reasons=[Reason(text=why), *plan.reasons], infeasible=Infeasible(names, why)), state
