"""OSML (FAST'23, section 5): models say where the good allocation is, so that no search is needed.

One decision: facts, then the first of an ordered list of rules whose proposal passes the guard, then the layout. The
rules are in `rules.py`; what each is worth is measured in docs/reference/osml-rules.md. Deviations from the paper are
numbered in docs/reference/policies.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Self

from msgspec.structs import replace

from osml.allocation.policy import Plan
from osml.allocation.violation import migration, violated_since
from osml.domain import Forecast, Infeasible, Observation, Partition, Reason, Service
from osml.policies.osml.agent_refuses import (
    after_decision,
    after_outcome,
    held_back,
    part_of_the_way,
    repeated,
    stuck,
    undo_of,
)
from osml.policies.osml.answers.forecast import NO_MODEL, Answer, ModelFault, ask
from osml.policies.osml.answers.models import Models, shipped_models
from osml.policies.osml.answers.out_of_distribution import AGAIN, still_unfamiliar
from osml.policies.osml.balance import after_return
from osml.policies.osml.bandwidth import with_bandwidth
from osml.policies.osml.facts import Facts, facts_of
from osml.policies.osml.formula import staffed
from osml.policies.osml.layout import cells_of, partition_of
from osml.policies.osml.memory.state import OsmlState, sound
from osml.policies.osml.node import Node, node_of
from osml.policies.osml.place import no_cells
from osml.policies.osml.rule import Proposal
from osml.policies.osml.rules import chosen
from osml.policies.osml.settings import DEFAULT, Settings

BY_FORMULA = "needs are those of square-root staffing"
"""How the first reason of a decision begins where no model can be believed."""


class Osml:
    """Predicted needs for everybody at once; the models of each platform are opened at its first observation.

    `models` are used in place of the shipped ones: the same whatever the platform, or those that a function of the
    platform's id gives at each decision (a server that exchanges them as it runs). `settings` are other thresholds,
    and rules named in `without` are left out: to see what they are worth.
    """

    name = "osml"
    version = 12
    State = OsmlState
    kinds: tuple[str, ...] = ("a", "a2", "c2")
    """Models that are used."""

    def __init__(
        self,
        models: Models | Callable[[str], Models] | None = None,
        settings: Settings = DEFAULT,
        without: Collection[str] = (),
    ) -> None:
        self._given, self._settings, self._without = models, settings, without

    def with_models(self, models_of: Callable[[str], Models]) -> Self:
        """The same policy with the models that `models_of` has for a platform id."""
        return type(self)(models_of, self._settings, self._without)

    def initial(self, observation: Observation, seed: int) -> OsmlState:
        """Nothing done yet. Nothing in OSML is random once its models are trained."""
        return OsmlState()

    def decide(self, observation: Observation, state: OsmlState) -> tuple[Plan, OsmlState]:
        """Predict, and act where that says so."""
        state = after_outcome(observation, sound(state, observation.time_s + self._settings.retry_most_s))
        node = node_of(observation)
        models = self._models(observation.platform.id)
        told, answers, state, said = self._needs(observation, node, state, models)
        facts = self._known(facts_of(observation, node, state, answers, models, self._settings))
        lc = facts.services
        since_s = violated_since(lc, state.violated_since_s, observation.time_s)
        proposal = repeated(facts) or held_back(facts) or no_cells(facts) or self._chosen(facts)
        partition, told_of_bandwidth = proposal.partition, list[Reason]()
        if partition is None:
            partition, told_of_bandwidth = with_bandwidth(
                facts, partition_of(observation, node, proposal.cells), models.profiles
            )
        reasons = [*said, *facts.notes, *proposal.reasons, *told_of_bandwidth]
        lack = _told(facts, proposal)
        late = migration(lc, since_s, observation.time_s) or stuck(facts) or _undivided(facts)
        plan = Plan(partition, reasons, lack or late, _forecasts(told, state, proposal))
        return plan, _remembered(facts, proposal, partition, lack, since_s)

    def _chosen(self, facts: Facts) -> Proposal:
        """What the first rule with an answer proposes, in steps that the agent may accept."""
        return part_of_the_way(facts, chosen(facts, self._without).proposal)

    def _known(self, facts: Facts) -> Facts:
        """The facts as they are decided upon: who collects training data looks at them here."""
        return facts

    def _models(self, platform: str) -> Models:
        """Those that decide on a platform."""
        given = self._given if self._given is not None else shipped_models
        found = given if isinstance(given, Models) else given(platform)
        return found.only(*self.kinds)

    def _needs(
        self, observation: Observation, node: Node, state: OsmlState, models: Models
    ) -> tuple[dict[str, Answer], dict[str, Answer], OsmlState, list[Reason]]:
        """What the models say, and what every LC service needs: by the formula where no model can be believed."""
        services = [service for service in observation.services if service.kind == "lc"]
        told = ask(observation, services, models) if services else {}
        if isinstance(told, ModelFault):
            answers = _staffed(observation, node, services)
            said = [Reason(text=f"{BY_FORMULA}, because {told.text}")]
            return {}, answers, replace(state, unfamiliar=dict.fromkeys(answers, 0)), said
        strange = {name: answer.strange for name, answer in told.items() if answer.strange is not None}
        unfamiliar = still_unfamiliar(state.unfamiliar, strange, list(told))
        said = [_unlike(name, strange.get(name), familiar) for name, familiar in unfamiliar.items()] + _hidden(told)
        by_formula = _staffed(observation, node, [one for one in services if one.name in unfamiliar])
        return told, told | by_formula, replace(state, unfamiliar=unfamiliar), said


class OsmlDqn(Osml):
    """With the paper's Model-C, a DQN, in the place of Model-C'."""

    name = "osml:dqn"
    kinds = ("a", "a2", "c")


class OsmlAb(Osml):
    """Without any corrector: corrections are single steps (the paper's ablation, section 6.2)."""

    name = "osml:ab"
    kinds = ("a", "a2")


class OsmlFormula(Osml):
    """The rules without any model: needs are those of square-root staffing."""

    name = "osml:formula"
    kinds = ()


def _staffed(observation: Observation, node: Node, services: Sequence[Service]) -> dict[str, Answer]:
    """The needs of these services by the formula."""
    if not services:
        return {}
    held, quantum = cells_of(observation.partition, node), observation.platform.core_quantum
    return {one.name: staffed(node, one, held.get(one.name), quantum) for one in services}


def _told(facts: Facts, proposal: Proposal) -> Infeasible | None:
    """What the scheduler above is told, in every decision until those targets have been met for a while."""
    if proposal.shortage is not None:
        return proposal.shortage
    names = [name for name in proposal.set_aside if facts.tracks[name].met < facts.settings.calm]
    if names:
        return Infeasible(names, f"these services only have what the others leave: {', '.join(names)}")
    told = facts.before.shortage
    late = [] if told is None else [name for name in told.services if name in facts.tracks]
    if told is None or all(facts.tracks[name].met >= facts.settings.calm for name in late):
        return None
    return Infeasible(late, told.message)


def _undivided(facts: Facts) -> Infeasible | None:
    """That nobody has ways of its own, though the node has some to divide."""
    why = facts.node.ways_obstacle
    return None if why is None else Infeasible(list(facts.node.lc), f"{why}; all services share the ways")


def _remembered(
    facts: Facts, proposal: Proposal, partition: Partition, lack: Infeasible | None, since_s: float | None
) -> OsmlState:
    """What the next decision has to know."""
    kept = proposal.partition is not None
    again = kept and facts.observation.partition is None
    set_aside = facts.set_aside if kept else list(proposal.set_aside)
    good, returned = after_return(facts)
    same = len(proposal.cells) == len(facts.cells) and bool(set_aside) == bool(facts.set_aside)
    return replace(
        facts.before,
        tracks={**facts.tracks, **proposal.tracks},
        refused=after_decision(facts, proposal),
        undo=facts.before.undo if again else None if kept else undo_of(facts, proposal),
        set_aside=set_aside,
        age=facts.before.age if again else facts.age if kept or same else 0,
        scores=facts.scores,
        good=good,
        returned=returned,
        wanted=partition,
        shortage=lack,
        violated_since_s=since_s,
        seq=facts.observation.seq,
    )


def _forecasts(answers: Mapping[str, Answer], state: OsmlState, proposal: Proposal) -> list[Forecast]:
    """What the models said, with the actions of Model-C that were taken."""
    found: list[Forecast] = []
    for name, answer in answers.items():
        if answer.model != NO_MODEL:
            told, action = answer.forecast(familiar=name not in state.unfamiliar), proposal.actions.get(name)
            found.append(told if action is None else replace(told, action=(action.cores, action.ways), q=action.q))
    return found


def _unlike(name: str, strange: str | None, familiar: int) -> Reason:
    """Why a service's prediction is not used."""
    now = strange if strange is not None else f"in-distribution for {familiar} of {AGAIN} intervals"
    text = f"{name} is out-of-distribution for the models ({now}): its need is that of square-root staffing"
    return Reason(text=text, service=name)


def _hidden(answers: Mapping[str, Answer]) -> list[Reason]:
    """Names the features that the models were asked without, each with its services."""
    found: dict[str, list[str]] = {}
    for name, answer in answers.items():
        for feature in answer.hidden:
            found.setdefault(feature, []).append(name)
    parts = "; ".join(f"{feature} of {', '.join(names)}" for feature, names in found.items())
    return [Reason(text=f"far outside the training range, so these count as not measured: {parts}")] if found else []
