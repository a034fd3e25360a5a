"""OSML (FAST'23, section 5): models say where the good allocation is, so that no search is needed.

| here | the paper |
|---|---|
| `answers.forecast.ask` | Model-A and A': RCliff, OAA, bandwidth of the OAA |
| `steps.place` | algorithm 1: a service arrives |
| `steps.relieve` | algorithm 2: a target is missed |
| `steps.reclaim` | algorithm 3: more than is needed; taken back where a target is missed after it |
| `steps.relieve._pair` | algorithm 4: two services share across RCliff |
| `steps.overcommit` | beyond the paper: the needs exceed the node |
| `steps.ways_for_cores` | beyond the paper: more ways for a service whose jobs gain by it |
| `steps.one_alone` | beyond the paper: one service in a cell, the others share the rest |
| `steps.below_oaa` | beyond the paper: one core below the OAA where measurements allow it |
| `steps.leave_be_cores` | beyond the paper: BE jobs leave the CPUs of one service |

Deviations are numbered in docs/reference/policies.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Self

from msgspec.structs import replace

from osml.allocation.policy import Plan
from osml.allocation.violation import migration, violated_since
from osml.domain import Observation, Reason
from osml.policies.arq import Arq, ArqState
from osml.policies.osml.answers.forecast import Answer, ModelFault, ask, unpredicted
from osml.policies.osml.answers.models import Models, shipped_models
from osml.policies.osml.answers.out_of_distribution import AGAIN, still_unfamiliar
from osml.policies.osml.choose import chosen
from osml.policies.osml.node import Node, node_of
from osml.policies.osml.remembered.outcome import after_outcome, in_words, stands, why_held
from osml.policies.osml.remembered.state import OsmlState, at_this_time, sound
from osml.policies.osml.working_plan import WorkingPlan


class Osml:
    """Predicted needs for everybody at once; the models of each platform are opened at its first observation.

    `models` are used in place of the shipped ones: the same whatever the platform, or those that a function of the
    platform's id gives at each decision (a server that exchanges them as it runs).
    """

    name = "osml"
    version = 4
    State = OsmlState
    kinds: tuple[str, ...] | None = None
    """Models that are used; None: all there are."""

    def __init__(self, models: Models | Callable[[str], Models] | None = None) -> None:
        self._given = models

    def with_models(self, models_of: Callable[[str], Models]) -> Self:
        """The same policy with the models that `models_of` has for a platform id."""
        return type(self)(models_of)

    def initial(self, observation: Observation, seed: int) -> OsmlState:
        """Nothing done yet. Nothing in OSML is random once its models are trained."""
        return OsmlState(time_s=observation.time_s)

    def decide(self, observation: Observation, state: OsmlState) -> tuple[Plan, OsmlState]:
        """Predict, and act where that says so; by ARQ's rules where the models can be asked about nobody."""
        state = at_this_time(sound(state), observation.time_s)
        node = node_of(observation, state.wanted)
        if state.arq is None:
            state = after_outcome(observation, node.cells, state)
            if observation.partition is None and state.wanted is not None:
                if observation.outcome is not None and observation.outcome.status == "dry_run":
                    state = self.initial(observation, 0)  # nothing that is decided ever happens
                    node = node_of(observation, None)
                elif stands(state.wanted, node):
                    return _same_again(node, state)
        if state.jobs_isolated:
            node = node._replace(background=False)
        if node.obstacle is not None:
            return _by_arq(observation, state, node.obstacle)
        models = self.models(observation.platform.id)
        answers = self.answers(node, models)
        names = [service.name for service in node.lc]
        if isinstance(answers, ModelFault):
            return _by_arq(observation, replace(state, unfamiliar=dict.fromkeys(names, 0)), answers.text)
        strange = {name: answer.strange for name, answer in answers.items() if answer.strange is not None}
        state = replace(state, unfamiliar=still_unfamiliar(state.unfamiliar, strange, names))
        why = [_unlike(name, strange.get(name), familiar) for name, familiar in state.unfamiliar.items()]
        if len(state.unfamiliar) == len(names):
            return _by_arq(observation, state, "; ".join(why))
        return _by_models(node, state, answers, models, why)

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
        return stand_ins(node, names, anew=not set(names) <= set(node.cells))


def stand_ins(node: Node, names: Collection[str], *, anew: bool = False) -> dict[str, Answer]:
    """In place of predictions: these services need what they have, or even parts: who has nothing, or all if `anew`."""
    count, room, quantum = len(node.lc), node.for_lc, node.observation.platform.core_quantum
    even = {name: node.bounded(name, room.cores // count, room.ways // count) for name in names}
    return {
        name: unpredicted(name, part if anew else node.cells.get(name, part), quantum) for name, part in even.items()
    }


def _unlike(name: str, strange: str | None, familiar: int) -> str:
    """Why a service's prediction is not used."""
    now = strange if strange is not None else f"in-distribution for {familiar} of {AGAIN} intervals"
    return f"{name} is out-of-distribution for the models ({now})"


def _by_models(
    node: Node, state: OsmlState, answers: dict[str, Answer], models: Models, why: list[str]
) -> tuple[Plan, OsmlState]:
    observation = node.observation
    lc = {service.name: service for service in node.lc}
    since_s = violated_since(lc, state.violated_since_s, observation.time_s)
    used = {**answers, **stand_ins(node, state.unfamiliar)} if state.unfamiliar else answers
    turn = WorkingPlan(node, replace(state, arq=None, violated_since_s=since_s), used, models)
    for text in why:
        turn.say(f"{text}: it keeps its resources and gets fixed steps")
    turn.say_hidden()
    late = migration(lc, since_s, observation.time_s)
    applied, refused = observation.partition, state.refused
    if refused is not None and refused.wait > 0 and applied is not None and stands(applied, node):
        held = why_held(observation, refused)
        text = f"{held}; the applied partition stays for {refused.wait} interval(s) before the next request"
        plan = Plan(applied, [Reason(text=text)], turn.infeasible() or late, turn.forecasts(answers))
        return plan, turn.waiting(applied)
    partition = chosen(turn)
    lack = turn.infeasible()
    return Plan(partition, turn.reasons, lack or late, turn.forecasts(answers)), turn.state(partition, lack)


def _same_again(node: Node, state: OsmlState) -> tuple[Plan, OsmlState]:
    """Nothing is known to be applied: the same is asked for, and nothing is learned from what nobody decided."""
    assert state.wanted is not None  # noqa: S101 - the caller looked
    observation, lc = node.observation, {service.name: service for service in node.lc}
    since_s = violated_since(lc, state.violated_since_s, observation.time_s)
    lack = state.shortage or migration(lc, since_s, observation.time_s)
    plan = Plan(state.wanted, [Reason(text=f"{in_words(observation)}; the same request is repeated")], lack)
    refused = state.refused and replace(state.refused, asked=True)
    return plan, replace(
        state, refused=refused, violated_since_s=since_s, time_s=observation.time_s, seq=observation.seq
    )


def _by_arq(observation: Observation, state: OsmlState, why: str) -> tuple[Plan, OsmlState]:
    """ARQ goes on from what is applied; what was learned of the services stays for when the models can be asked."""
    before = state.arq if state.arq is not None else ArqState(wanted=state.wanted, time_s=observation.time_s)
    plan, after = Arq().decide(observation, before)
    said = Reason(text=f"osml: the rules of arq decide, because {why}")
    plan = Plan(plan.partition, [said, *plan.reasons], plan.infeasible, plan.forecasts)
    names = {service.name for service in observation.services}
    known = {name: memory for name, memory in state.known.items() if name in names}
    return plan, OsmlState(
        known=known,
        wanted=plan.partition,
        arq=after,
        time_s=observation.time_s,
        seq=observation.seq,
        violated_since_s=after.violated_since_s,
        unfamiliar=state.unfamiliar,
    )
