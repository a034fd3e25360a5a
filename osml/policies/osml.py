"""OSML (FAST'23, section 5): models say where the good allocation is, so that nobody has to grope for it.

| here | the paper |
|---|---|
| `osml_forecast.ask` | Model-A and A': RCliff, OAA, bandwidth of the OAA |
| `osml_place.place` | algorithm 1: a service comes |
| `osml_relieve.relieve` | algorithm 2: a target is missed |
| `osml_reclaim.reclaim` | algorithm 3: more than is needed; taken back where a target is missed after it |
| `osml_relieve._pair` | algorithm 4: two services share across RCliff |
| `osml_overcommit.overcommit` | beyond the paper: not everybody's need fits |

Deviations are numbered in docs/reference/policies.md.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from osml.domain import Infeasible, Observation, Reason
from osml.policies.arq import Arq, ArqState
from osml.policies.osml_forecast import Answer, ModelFault, ask, unpredicted
from osml.policies.osml_models import Models, shipped_models
from osml.policies.osml_node import Cell, Node, node_of
from osml.policies.osml_round import Round
from osml.policies.osml_state import OsmlState, sound
from osml.policies.policy import Plan
from osml.policies.violation import migration, violated_since


class Osml:
    """Predicted needs for everybody at once; the models of each platform are opened at its first observation.

    `models` are used in place of the shipped ones: the same whatever the platform, or those that a function of the
    platform's id gives at each decision (a server that exchanges them as it runs).
    """

    name = "osml"
    version = 1
    State = OsmlState
    kinds: tuple[str, ...] | None = None
    """Models that are used; None: all there are."""

    def __init__(self, models: Models | Callable[[str], Models] | None = None) -> None:
        self._given = models

    def initial(self, observation: Observation, seed: int) -> OsmlState:
        """Nothing done yet. Nothing in OSML is random once its models are trained."""
        return OsmlState(time_s=observation.time_s)

    def decide(self, observation: Observation, state: OsmlState) -> tuple[Plan, OsmlState]:
        """Predict, and act where that says so; by ARQ's rules where the models can't be asked."""
        state = sound(state)
        if observation.time_s < state.time_s:
            state = replace(state, violated_since_s=None)
        models = self.models(observation.platform.id)
        node = node_of(observation, state.wanted)
        if state.apart:
            node = node._replace(background=False)
        answers = ModelFault(node.obstacle) if node.obstacle is not None else self.answers(node, models)
        if isinstance(answers, ModelFault):
            return _by_arq(observation, state, answers.text)
        strange = [f"{n} is like nothing that the models know ({a.strange})" for n, a in answers.items() if a.strange]
        if strange:
            return _by_arq(observation, state, "; ".join(strange))
        return _by_models(observation, state, node, answers, models)

    def answers(self, node: Node, models: Models) -> dict[str, Answer] | ModelFault:
        """What every LC service needs."""
        return ask(node.observation, node.lc, models)

    def models(self, platform: str) -> Models:
        """Those that decide on a platform."""
        given = self._given if self._given is not None else shipped_models
        found = given if isinstance(given, Models) else given(platform)
        return found if self.kinds is None else found.only(*self.kinds)


class OsmlAb(Osml):
    """Without Model-C: corrections are single steps (the paper's ablation, section 6.2)."""

    name = "osml:ab"
    kinds = ("a", "a2", "b", "b2")


class OsmlC(Osml):
    """Model-C alone, from an even start: no predictions, no shield (the paper's ablation, section 6.2)."""

    name = "osml:c"
    kinds = ("c",)

    def answers(self, node: Node, models: Models) -> dict[str, Answer] | ModelFault:
        """Everybody needs what it has; even parts at first and where somebody comes."""
        if models.c is None:
            return ModelFault(next((fault for fault in models.faults if " c:" in fault), "model c is missing"))
        names = [service.name for service in node.lc]
        even = dict(zip(names, _even_parts(node), strict=True))
        cells = node.cells if set(names) <= set(node.cells) else {}
        return unpredicted(cells, even, node.observation.platform.core_quantum)


def _even_parts(node: Node) -> list[Cell]:
    count, room = len(node.lc), node.for_lc
    return [node.bounded(service.name, room.cores // count, room.ways // count) for service in node.lc]


def _by_models(
    observation: Observation, state: OsmlState, node: Node, answers: dict[str, Answer], models: Models
) -> tuple[Plan, OsmlState]:
    lc = {service.name: service for service in node.lc}
    since_s = violated_since(lc, state.violated_since_s, observation.time_s)
    turn = Round(node, replace(state, arq=None, violated_since_s=since_s), answers, models)
    partition = turn.decide()
    late = migration(lc, since_s, observation.time_s)
    lack = Infeasible(turn.unsatisfied, turn.lack) if turn.lack else None
    if lack is None and turn.aside:
        lack = Infeasible(list(turn.aside), f"{', '.join(turn.aside)} only has what the others leave")
    return Plan(partition, turn.reasons, lack or late, turn.forecasts()), turn.state(partition)


def _by_arq(observation: Observation, state: OsmlState, why: str) -> tuple[Plan, OsmlState]:
    """ARQ goes on from what is applied; what was learned of the services stays for when the models can be asked."""
    before = state.arq if state.arq is not None else ArqState(wanted=state.wanted, time_s=observation.time_s)
    plan, after = Arq().decide(observation, before)
    said = Reason(text=f"osml: by arq's rules, because {why}")
    plan = Plan(plan.partition, [said, *plan.reasons], plan.infeasible, plan.forecasts)
    names = {service.name for service in observation.services}
    known = {name: memory for name, memory in state.known.items() if name in names}
    return plan, OsmlState(
        known=known, wanted=plan.partition, arq=after, time_s=observation.time_s,
        violated_since_s=after.violated_since_s,
    )  # fmt: skip
