"""The rollout of one server: its plan, the models of its canaries, what was counted of them, and their returns."""

from __future__ import annotations

import asyncio
import importlib
import time
import traceback
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from osml.base.failure import Failure, InputError
from osml.domain import Observation
from osml.experiences.outcome import CanaryReturn
from osml_serving.decider import Decider, PolicyFailedError
from osml_serving.errors import ApiError
from osml_serving.example import EXAMPLE
from osml_serving.log import Log
from osml_serving.metrics import LONGEST_INTERVAL_S
from osml_serving.rollout.choice import Choice, choose
from osml_serving.rollout.judge import ArmFigures, Tally
from osml_serving.rollout.plan import Canary, Limits, Plan, read_plan
from osml_serving.rollout.returns import Returns

NOBODY = Choice(None, None)
MAX_CHOICES = 20_000
EVERY_S = 5.0
WHY = 1000  # characters of a reason that are kept


class CanaryState(msgspec.Struct):
    """A canary as the API shows it. `state`: waits (its models are being opened), runs, or returned."""

    name: str
    what: str
    group: str | None
    percent: float
    state: str
    since: float | None
    why: str | None
    canary: ArmFigures
    others: ArmFigures


class Rollout:
    """`assign` decides which policy and models decide; `count` and `tend` judge the canaries.

    `open_models` makes a decider that uses the models of a folder (and checks them); it blocks.
    """

    def __init__(
        self,
        path: Path | None,
        policies: Collection[str],
        returns: Returns,
        open_models: Callable[[Path], Decider],
        log: Log,
    ) -> None:
        self._path = path
        self._policies = policies
        self._returns = returns
        self._open_models = open_models
        self._log = log
        self._plan = Plan(schema="osml/rollout/v1") if path is None else read_plan(path, policies)
        self._choices: dict[tuple[str, bool], Choice] = {}
        self._deciders: dict[str, Decider] = {}
        self._tallies: dict[str, Tally] = {}
        self._tried: dict[str, object] = {}
        self._tending = asyncio.Lock()
        self._begin()

    @property
    def files(self) -> list[Path]:
        """Files that are read again when they change."""
        return [] if self._path is None else [self._path]

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self._plan

    def reload(self) -> None:
        """Read the file again. One that can't be used changes nothing, and the log says why."""
        if self._path is None:
            return
        try:
            plan = read_plan(self._path, self._policies)
        except InputError as error:
            self._log.event("error", "rollout", f"the rollout file was not reloaded, the old one stays: {error}")
            return
        self._plan = plan
        self._begin()
        self._log.event("info", "rollout", f"the rollout file {self._path} was reloaded")

    def assign(self, observation: Observation) -> tuple[Observation, Choice, Decider | None]:
        """The observation with the policy that shall decide, the choice, and the decider where it has own models."""
        if not (self._plan.groups or self._plan.canaries):
            return observation, NOBODY, None
        key = observation.node, observation.policy is not None
        choice = self._choices.get(key)
        if choice is None:
            if len(self._choices) >= MAX_CHOICES:
                self._choices.clear()
            choice = choose(self._plan, key[0], {*self._returns.known, *self._waiting()}, names_policy=key[1])
            self._choices[key] = choice
        if observation.policy is None and choice.policy is not None:
            observation = msgspec.structs.replace(observation, policy=choice.policy)
        return observation, choice, None if choice.canary is None else self._deciders.get(choice.canary.name)

    def without_canary(self, given: Observation, choice: Choice) -> Observation:
        """The observation with the policy of its group: for an interval that the canary could not decide."""
        policy = given.policy or (None if choice.group is None else choice.group.policy)
        return msgspec.structs.replace(given, policy=policy)

    def count(self, choice: Choice, observation: Observation, *, missed: bool, e_s: float | None) -> None:
        """Count what an observation says of the policy that decided before it."""
        for name, arm in choice.arms:
            seconds = min(observation.interval_s, LONGEST_INTERVAL_S)
            self._tally(name).add(observation.node, arm, seconds, missed=missed, e_s=e_s)

    def count_failure(self, choice: Choice) -> None:
        """Count a decision that failed."""
        for name, arm in choice.arms:
            self._tally(name).failures[arm] += 1

    def _tally(self, canary: str) -> Tally:
        """That of a canary; a plan that came in between may have none."""
        return self._tallies.get(canary) or Tally(Limits())

    async def tend(self) -> None:
        """Open models that wait, judge, and exchange returns; awaited every few seconds. Never raises."""
        async with self._tending:
            await self._tend()

    async def _tend(self) -> None:
        plan = self._plan
        if not plan.canaries:
            return
        await asyncio.to_thread(importlib.import_module, "scipy.special")  # the verdicts need it
        for canary in plan.canaries:
            if canary.name in self._waiting():
                await self._open(canary)
        for one in await self._returns.exchange():
            self._choices = {}
            if one.canary in self._tallies:
                self._log.event("warning", "canary", f"canary '{one.canary}' stays returned: {one.why}")
        for canary in self._plan.canaries:
            if canary.name not in self._returns.known:
                why = self._tallies[canary.name].verdict()
                if why is not None:
                    self._take_back(canary, why)
        await self._returns.exchange()

    def states(self) -> list[CanaryState]:
        """All canaries, for people and metrics."""
        waiting = self._waiting()
        found: list[CanaryState] = []
        for canary in self._plan.canaries:
            returned = self._returns.known.get(canary.name)
            tally = self._tallies[canary.name]
            found.append(
                CanaryState(
                    canary.name,
                    canary.what,
                    canary.group,
                    canary.percent,
                    "returned" if returned is not None else "waits" if canary.name in waiting else "runs",
                    None if returned is None else returned.at,
                    None if returned is None else returned.why,
                    tally.figures("canary"),
                    tally.figures("others"),
                )
            )
        return found

    def _begin(self) -> None:
        """Take up the plan. A canary that tries the same as before keeps its models and its figures."""
        same = {c.name for c in self._plan.canaries if self._tried.get(c.name) == (c.group, c.policy, c.models)}
        self._tried = {c.name: (c.group, c.policy, c.models) for c in self._plan.canaries}
        self._deciders = {name: decider for name, decider in self._deciders.items() if name in same}
        kept = {name: tally for name, tally in self._tallies.items() if name in same}
        self._tallies = {c.name: kept.get(c.name) or Tally(c.limits) for c in self._plan.canaries}
        for canary in self._plan.canaries:
            self._tallies[canary.name].limits = canary.limits
        self._choices = {}

    def _waiting(self) -> set[str]:
        """Canaries whose models are not open yet: nobody decides with them."""
        models = {canary.name for canary in self._plan.canaries if canary.models is not None}
        return models - self._deciders.keys() - self._returns.known.keys()

    async def _open(self, canary: Canary) -> None:
        try:
            decider = await asyncio.to_thread(self._open_models, Path(canary.models or ""))
            decider(msgspec.structs.replace(EXAMPLE, policy=canary.policy))
        except (Failure, ApiError, PolicyFailedError) as error:
            self._take_back(canary, f"it cannot decide: {error}")
            return
        self._deciders[canary.name] = decider
        self._choices = {}
        self._log.event("info", "canary", f"canary '{canary.name}' decides with {canary.what}")

    def _take_back(self, canary: Canary, why: str) -> None:
        self._returns.add(CanaryReturn(canary.name, time.time(), why[:WHY]))
        self._choices = {}
        self._log.event("error", "canary", f"canary '{canary.name}' ({canary.what}) was taken back: {why}")


async def tend(rollout: Rollout, log: Log, every_s: float = EVERY_S) -> None:
    """Tend the rollout every few seconds, until cancelled."""
    while True:
        try:
            await rollout.tend()
        except Exception as error:  # decisions go on as they were
            log.fault("rollout", f"the canaries were not judged: {error!r}", traceback.format_exc())
        await asyncio.sleep(every_s)
