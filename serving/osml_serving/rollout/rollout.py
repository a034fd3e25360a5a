"""The rollout of one server: its plan, the models of its canaries, what was counted of them, and their returns."""

from __future__ import annotations

import asyncio
import importlib
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from osml.base.failure import Failure, InputError
from osml.domain import Observation
from osml.experiences.outcome import CanaryReturn
from osml_serving.decider import Decider, PolicyFailedError
from osml_serving.errors import ApiError
from osml_serving.example import EXAMPLE
from osml_serving.log import Log
from osml_serving.rollout.canary_models import CanaryModels
from osml_serving.rollout.choice import Choice, choose
from osml_serving.rollout.judge import LEAST_NODES, Arm, ArmFigures, Tally
from osml_serving.rollout.plan import Canary, Limits, Plan, policies_of, read_plan
from osml_serving.rollout.returns import Returns
from osml_serving.view.explain import ModelInUse

NOBODY = Choice(None, None)
MAX_CHOICES = 20_000
EVERY_S = 5.0
WHY = 1000  # characters of a reason that are kept
UNREAD = "the experience store has not been read yet"
UNOPENED = "its models are being opened"
BLIND = f"it cannot be judged: its nodes or the others are fewer than {LEAST_NODES}"
BLAMED = frozenset({"policy_late", "policy_unavailable"})
"""Errors of the API that are the fault of a policy, not of the request and not of the moment."""


class CanaryState(msgspec.Struct):
    """A canary as the API shows it. `state`: waits, runs, or returned.

    `why`: why it returned, or why it waits or cannot be judged.
    """

    name: str
    what: str
    group: str | None
    percent: float
    state: str
    since: float | None
    why: str | None
    canary: ArmFigures
    others: ArmFigures


class Assigned(NamedTuple):
    """An observation with the policy that shall decide, and the choice; `decider` where the canary has own models."""

    observation: Observation
    choice: Choice
    decider: Decider | None


class Rollout:
    """`assign` decides which policy and models decide; `count` and `tend` judge the canaries.

    `ready` says whether a policy decides at this moment (slow ones start), `open_models` makes a decider with the
    models of a folder, checked; it blocks.
    """

    def __init__(
        self,
        path: Path | None,
        decider: Decider,
        returns: Returns,
        open_models: Callable[[Path], CanaryModels],
        log: Log,
        ready: Callable[[str], bool] = lambda _policy: True,
    ) -> None:
        self._path = path
        self._decider = decider
        self._returns = returns
        self._open_models = open_models
        self._log = log
        self._ready = ready
        self._plan = Plan(schema="osml/rollout/v1") if path is None else self._read(path)
        self._choices: dict[tuple[str, bool], Choice] = {}
        self._decided: dict[str, tuple[tuple[str, Arm], ...]] = {}  # by node: the arms of its last decision
        self._models: dict[str, CanaryModels] = {}
        self._tallies: dict[str, Tally] = {}
        self._tried: dict[str, object] = {}
        self._told: set[str] = set()
        self._tending = asyncio.Lock()
        self._begin()

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self._plan

    def reload(self) -> None:
        """Read the file again. One that can't be used changes nothing, and the log says why."""
        if self._path is None:
            return
        try:
            plan = self._read(self._path)
        except InputError as error:
            self._log.event("error", "rollout", f"the rollout file was not reloaded, the old one stays: {error}")
            return
        self._plan = plan
        self._begin()
        self._log.event("info", "rollout", f"the rollout file {self._path} was reloaded")

    def _read(self, path: Path) -> Plan:
        """The plan of a file. Raises InputError, also for canaries whose return the other workers would not hear of."""
        plan = read_plan(path, self._decider)
        if plan.canaries and not self._returns.shared:
            raise InputError(
                f"rollout file {path} has canary '{plan.canaries[0].name}', but --store is none and there are several "
                "--workers, which learn from the store that a canary was taken back: set --store, or --workers 1"
            )
        return plan

    def assign(self, given: Observation) -> Assigned:
        """Who decides on an observation."""
        if not (self._plan.groups or self._plan.canaries):
            return Assigned(given, NOBODY, None)
        key = given.node, given.policy is not None
        choice = self._choices.get(key)
        if choice is None:
            if len(self._choices) >= MAX_CHOICES:
                self._choices.clear()
            choice = choose(self._plan, key[0], {*self._returns.known, *self._waiting()}, names_policy=key[1])
            self._choices[key] = choice
        canary = choice.canary
        policy = choice.policy if given.policy is None else given.policy
        if canary is None or (policy is not None and not self._decides(policy)):
            return self.without_canary(given, choice)
        models = self._models.get(canary.name)
        seen = msgspec.structs.replace(given, policy=policy)
        return Assigned(seen, choice, None if models is None else models.decider)

    def without_canary(self, given: Observation, choice: Choice) -> Assigned:
        """As `assign` for an interval that no canary decides. It then counts for none."""
        group = choice.group
        rest = choice if choice.canary is None else Choice(group, None)
        if given.policy is not None or group is None or group.policy is None:
            return Assigned(given, rest, None)
        if group.policy in self._decider.unavailable:
            self._tell(f"group '{group.name}' names policy '{group.policy}', which is not available", group.policy)
            return Assigned(given, rest, None)
        return Assigned(msgspec.structs.replace(given, policy=group.policy), rest, None)

    def count(
        self,
        choice: Choice,
        node: str,
        seconds: float,
        *,
        missed: bool,
        unmeasured: bool,
        unapplied: bool,
        e_s: float | None,
    ) -> None:
        """Count what an observation says of the decision before it, and the seconds that it stands for.

        `choice` is what decided on this observation: the next one shows its effect. A node that this server has not
        answered before had the same choice at another one.
        """
        if not self._plan.canaries:
            return
        before = self._decided.get(node, choice.arms)
        if node not in self._decided and len(self._decided) >= MAX_CHOICES:
            self._decided.clear()
        self._decided[node] = choice.arms
        for name, arm in before:
            self._tally(name).add(
                node, arm, seconds, missed=missed, e_s=e_s, unmeasured=unmeasured, unapplied=unapplied
            )
        for name in self._tallies.keys() - {name for name, _arm in before}:
            self._tallies[name].add_away(node, seconds)
        for name, arm in choice.arms:
            if (name, arm) not in before:
                self._tally(name).settle(node, arm)

    def count_failure(self, choice: Choice, node: str, error: Exception) -> None:
        """Count a decision that failed, where that is the policy's fault."""
        if isinstance(error, ApiError) and error.body.code not in BLAMED:
            return
        for name, arm in choice.arms:
            self._tally(name).add_failure(node, arm)

    def models_of(self, canary: str, platform: str) -> list[ModelInUse] | None:
        """Models that a canary decides with for a platform; None where it has none of its own."""
        models = self._models.get(canary)
        return None if models is None else models.shelf.in_use(platform)

    async def tend(self) -> None:
        """Exchange returns, open models that wait, and judge; awaited every few seconds. Never raises."""
        async with self._tending:
            await self._tend()

    async def _tend(self) -> None:
        if not self._plan.canaries and not self._returns.unsaved:
            return
        await asyncio.to_thread(importlib.import_module, "scipy.special")  # the verdicts need it
        complete = self._returns.complete
        for one in await self._returns.exchange():
            self._choices = {}
            if one.canary in self._tallies:
                self._log.event("warning", "canary", f"canary '{one.canary}' stays returned: {one.why}")
        if complete != self._returns.complete:
            self._choices = {}
        for canary in self._plan.canaries:
            if self._returns.complete and canary.name in self._waiting():
                await self._open(canary)
        for canary in self._plan.canaries:
            if canary.name not in self._returns.known:
                self._judge(canary)
        await self._returns.exchange()

    def _judge(self, canary: Canary) -> None:
        """Take a canary back where its figures say so. A fault of ours in one spares no other."""
        try:
            why = self._fault(canary) or self._tally(canary.name).verdict()
        except Exception as error:
            message = f"canary '{canary.name}' was not judged: {error!r}"
            self._log.fault("canary", message, traceback.format_exc())
            return
        if why is not None:
            self._take_back(canary, why)

    def states(self) -> list[CanaryState]:
        """All canaries, for people and metrics."""
        waiting = self._waiting()
        found: list[CanaryState] = []
        for canary in self._plan.canaries:
            returned = self._returns.known.get(canary.name)
            tally = self._tally(canary.name)
            found.append(
                CanaryState(
                    canary.name,
                    canary.what,
                    canary.group,
                    canary.percent,
                    "returned" if returned is not None else "waits" if canary.name in waiting else "runs",
                    None if returned is None else returned.at,
                    self._why(tally, waits=canary.name in waiting) if returned is None else returned.why,
                    tally.figures("canary"),
                    tally.figures("others"),
                )
            )
        return found

    def _why(self, tally: Tally, *, waits: bool) -> str | None:
        if waits:
            return UNOPENED if self._returns.complete else UNREAD
        return BLIND if tally.blind else None

    def _begin(self) -> None:
        """Take up the plan. A canary that tries the same as before keeps its models and its figures."""
        tried = {canary.name: self._what_it_tries(canary) for canary in self._plan.canaries}
        same = {name for name, what in tried.items() if self._tried.get(name) == what}
        self._tried = tried
        self._models = {name: models for name, models in self._models.items() if name in same}
        kept = {name: tally for name, tally in self._tallies.items() if name in same}
        self._tallies = {c.name: kept.get(c.name) or Tally(c.limits) for c in self._plan.canaries}
        for canary in self._plan.canaries:
            self._tallies[canary.name].limits = canary.limits
        self._choices = {}
        self._decided = {node: tuple(one for one in arms if one[0] in same) for node, arms in self._decided.items()}

    def _what_it_tries(self, canary: Canary) -> object:
        """With what it is compared to: another policy of its group makes other figures."""
        groups = [(g.name, g.policy, g.nodes) for g in self._plan.groups if canary.group in (None, g.name)]
        return canary.group, canary.policy, canary.models, groups

    def _waiting(self) -> set[str]:
        """Canaries that decide for nobody yet: their models are not open, or they may have returned before."""
        names = {canary.name for canary in self._plan.canaries}
        if self._returns.complete:
            names = {canary.name for canary in self._plan.canaries if canary.models is not None} - self._models.keys()
        return names - self._returns.known.keys()

    def _decides(self, policy: str) -> bool:
        return policy not in self._decider.unavailable and self._ready(policy)

    def _fault(self, canary: Canary) -> str | None:
        """Why the policy of a canary can't decide here at all."""
        why = self._decider.unavailable.get(canary.policy or "")
        return None if why is None else f"policy '{canary.policy}' is not available: {why}"

    def _tally(self, canary: str) -> Tally:
        """That of a canary; a plan that came in between may have none."""
        return self._tallies.get(canary) or Tally(Limits())

    async def _open(self, canary: Canary) -> None:
        if canary.models is None or canary not in self._plan.canaries:
            return  # another file came while the models of the canary before were opened
        models, why = await asyncio.to_thread(self._opened, canary, Path(canary.models))
        if canary not in self._plan.canaries:
            return  # another file came meanwhile
        if models is None:
            self._take_back(canary, f"it cannot decide: {why}")
            return
        self._models[canary.name] = models
        self._choices = {}
        self._log.event("info", "canary", f"canary '{canary.name}' decides with {canary.what}")

    def _opened(self, canary: Canary, folder: Path) -> tuple[CanaryModels | None, str]:
        """The models, warm; or why they can't be used. A policy that is not available says nothing of them. Blocks."""
        try:
            models = self._open_models(folder)
            for policy in policies_of(self._plan, canary, self._decider.default_policy):
                if policy not in self._decider.unavailable:
                    models.decider(msgspec.structs.replace(EXAMPLE, policy=policy))
        except (Failure, ApiError, PolicyFailedError) as error:
            return None, str(error)
        except Exception as error:  # models from outside can be wrong in any way
            return None, repr(error)
        return models, ""

    def _take_back(self, canary: Canary, why: str) -> None:
        self._returns.add(CanaryReturn(canary.name, time.time(), why[:WHY]))
        self._choices = {}
        self._log.event("error", "canary", f"canary '{canary.name}' ({canary.what}) was taken back: {why}")

    def _tell(self, message: str, once: str) -> None:
        if once not in self._told:
            self._told.add(once)
            self._log.event("error", "rollout", f"{message}: the default policy decides")


async def tend(rollout: Rollout, log: Log, every_s: float = EVERY_S) -> None:
    """Tend the rollout every few seconds, until cancelled."""
    while True:
        try:
            await rollout.tend()
        except Exception as error:  # decisions go on as they were
            log.fault("rollout", f"the canaries were not judged: {error!r}", traceback.format_exc())
        await asyncio.sleep(every_s)
