"""CLITE (Patel, Tiwari; HPCA 2020): Bayesian optimisation over partitions, for cores and LLC ways.

Every LC service has an isolated part; BE jobs share one. It measures whole partitions, learns a score, and then stays.

| here | paper |
|---|---|
| `score.score` | equation 3: below 1/2 while a target is missed, above by the performance of the BE jobs |
| `search.bootstrap` | the first samples: equal parts, then the most of everything for each job in turn |
| `surrogate` | Gaussian process with Matern 5/2 kernel; expected improvement with zeta = 0.01 |
| `space` | the constraints of the acquisition function: each resource adds up, everybody has a unit |
| `search.propose` | dropout-copy: one job keeps its part of the best sample, the others are optimised |
| `search.threshold` | termination by expected improvement, looser with more jobs |
| `_Round.measure` | an observation window of 2 s for each sample |
| `_Round.hold` | after termination: the best sample stays until targets are missed or load changes |

Deviations and readings are numbered in docs/reference/policies.md.
"""

from __future__ import annotations

from math import inf

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from osml.allocation.compositions import Cut, Units, seeded
from osml.allocation.division import divide, not_applied
from osml.allocation.policy import Plan, latency_text
from osml.allocation.refusals import refusals, stuck, was_refused
from osml.allocation.violation import migration, violated_since
from osml.domain import Infeasible, Observation, Partition, Reason
from osml.policies.clite.score import MET, leader, score
from osml.policies.clite.search import MAX_SAMPLES, Sample, best_of, bootstrap, propose
from osml.policies.clite.space import Space, part_label, space_of, take_up
from osml.policies.clite.surrogate import require_scikit_learn

WINDOW_S = 2.0
PATIENCE_S = 5.0  # a miss or a change of load that is shorter does not start the search again
LASTING_S = 60.0  # what held for so long was a success
MAX_DOUBLINGS = 6  # of the patience after searches that did not help
LOAD_CHANGE, LOAD_DEVIATIONS = 0.2, 4.0  # a change of load is larger than both; the latter in standard deviations
TRIES = 2  # for a partition that is refused


class Task(Struct, frozen=True):
    """What is optimised: samples of another task say nothing."""

    cuts: list[Cut]
    targets_ms: dict[str, float | None]
    jobs: list[str]


class CliteState(Struct, frozen=True):
    """`point` is in force since `asked_s` (flat, as in samples), for the `tries`-th time; times are node times.

    While `holding`, `loads` are the requests/s of each service when all targets were first met, `missed_ms` are the
    latencies above target in the last interval, and `changed_since_s` is since when targets are missed without getting
    better, or loads differ. `failures` counts searches in a row that did not help. `resumed_at` is the number of
    samples with which a search without success went on, 0 for a search that began anew. `refused` counts requests in a
    row that the agent refused while nothing was applied.
    """

    seed: int
    draws: int = 0
    task: Task | None = None
    samples: list[Sample] = []
    point: list[int] = []
    asked_s: float = 0.0
    tries: int = 1
    holding: bool = False
    loads: dict[str, float] = {}
    missed_ms: dict[str, float] = {}
    changed_since_s: float | None = None
    failures: int = 0
    resumed_at: int = 0
    violated_since_s: float | None = None
    refused: int = 0
    wanted: Partition | None = None
    time_s: float = 0.0


class Clite:
    """Samples partitions for two seconds each, where a Gaussian process expects the most, and keeps the best."""

    name = "clite"
    version = 1
    State = CliteState
    slow = True

    def initial(self, observation: Observation, seed: int) -> CliteState:
        """Nothing measured yet. Raises MachineError where scikit-learn is missing: better now than in mid-search."""
        require_scikit_learn()
        return CliteState(seed=seed, time_s=observation.time_s)

    def decide(self, observation: Observation, state: CliteState) -> tuple[Plan, CliteState]:
        """Go on with the partition in force, or change to the next one to measure, or to the best."""
        lc = {s.name: s for s in observation.services if s.kind == "lc"}
        jobs = [s.name for s in observation.services if s.kind == "be"]
        division = divide(observation, list(lc), lambda _: tuple(jobs), state)
        space = space_of(division)
        task = Task(space.cuts, {name: service.target_ms for name, service in lc.items()}, jobs)
        turn = _Round(observation, state, space, task)
        turn.advance()
        take_up(division, np.array(turn.state.point, dtype=np.int64).reshape(space.shape))
        partition = division.partition()
        since_s = None if observation.time_s < state.time_s else state.violated_since_s
        since_s = violated_since(lc, since_s, observation.time_s)
        refused = refusals(observation, state.refused, again=observation.partition is None)
        infeasible = division.infeasible() or stuck(observation, refused) or turn.infeasible()
        infeasible = infeasible or migration(lc, since_s, observation.time_s)
        after = replace(turn.state, violated_since_s=since_s, refused=refused, wanted=partition)
        after = replace(after, time_s=observation.time_s)
        return Plan(partition, [*division.reasons(), *turn.reasons], infeasible), after


class _Round:
    """One decision in the making; `state` becomes the next one."""

    def __init__(self, observation: Observation, state: CliteState, space: Space, task: Task) -> None:
        self.observation, self.now_s = observation, observation.time_s
        self.state, self.space, self.task = state, space, task
        self.bootstrap = bootstrap(space)
        self.reasons: list[Reason] = []

    def say(self, text: str) -> None:
        """Add a reason."""
        self.reasons.append(Reason(text=text))

    def advance(self) -> None:
        """One turn: start, repeat what is not on the machine, measure, or hold."""
        state = self.state
        if state.task != self.task:
            self.start("start" if state.task is None else "the services, targets or limits have changed", 0)
        elif self.now_s < state.time_s:
            self.start("the clock of the node was reset", 0)
        elif (obstacle := not_applied(self.observation, state.wanted)) is not None:
            self.repeat(obstacle)
        elif state.holding:
            self.hold()
        else:
            self.measure()

    def start(self, why: str, failures: int) -> None:
        """Forget all samples; the first point is the equal split."""
        self.say(f"{why}: sampling begins")
        self.state = CliteState(self.state.seed, self.state.draws, self.task, failures=failures)
        self.go_on()

    def resume(self, why: str, failures: int) -> None:
        """Go on with the samples of a search that met no target: the same bootstrap would find the same."""
        self.say(f"{why}: sampling goes on after {len(self.state.samples)} samples")
        self.state = replace(self.state, failures=failures, resumed_at=len(self.state.samples))
        self.go_on()

    def repeat(self, obstacle: str) -> None:
        """Ask for the same once more; what is refused again counts as known and without a score."""
        refused = self.observation.partition is not None or was_refused(self.observation)
        if not refused or self.state.tries < TRIES:
            self.say(f"{obstacle}; the same request is repeated")
            tries = self.state.tries + refused
            self.state = replace(self.state, tries=tries, asked_s=self.now_s)
            return
        self.say(f"{obstacle}; this partition is not requested again")
        others = [sample for sample in self.state.samples if sample.units != self.state.point]
        self.state = replace(self.state, samples=[*others, Sample(self.state.point, None)])
        if self.state.holding:
            self.settle("the agent refused the best partition")
        else:
            self.go_on()

    def measure(self) -> None:
        """Wait for the window to pass, then score the partition in force by the last interval and go on."""
        state, interval_s = self.state, self.observation.interval_s
        waited_s = self.now_s - state.asked_s
        if waited_s + interval_s / 2 < WINDOW_S:
            self.say(f"{self.sample_name()}: {waited_s:.3g} of {WINDOW_S:g} s observed")
            return
        value = score(self.observation.services)
        if value is None and waited_s < 2 * WINDOW_S:
            self.say(f"{self.sample_name()}: {self.unmeasured()}; the sample takes another interval")
            return
        found = f"not used: {self.unmeasured()}" if value is None else f"score {value:.3f}"
        self.say(f"{self.sample_name()}: {found}")
        self.state = replace(
            state, samples=[*state.samples, Sample(state.point, value, leader(self.observation.services))]
        )
        self.go_on()

    def go_on(self) -> None:
        """Ask for the next point to measure, or settle."""
        n_samples, n_first = len(self.state.samples), len(self.bootstrap)
        if not self.space.free:
            self.take(self.bootstrap[0] if self.space.cuts else np.empty(0, np.int64), holding=True)
            self.say("only one division is possible: nothing to search")
        elif n_samples < n_first:
            self.take(self.bootstrap[n_samples])
            self.say(f"{self.sample_name()}, bootstrap: {self.text_of_point()}")
        elif best_of(self.state.samples) is None:
            self.take(self.bootstrap[0], holding=True)
            if score(self.observation.services) is None:
                self.say(f"no sample was measured ({self.unmeasured()}): equal parts until latencies are measured")
            else:
                self.say("none of the first samples was both applied and measured: equal parts")
        elif n_samples >= n_first + MAX_SAMPLES:
            self.settle(f"the limit of {n_samples} samples is reached")
        else:
            rng = seeded(self.state.seed, self.state.draws)
            self.state = replace(self.state, draws=self.state.draws + 1)
            proposal = propose(self.space, self.state.samples, rng, relative=self.state.resumed_at > 0)
            if proposal is None:
                self.settle("no better partition is expected")
                return
            self.take(proposal.point)
            kept = (
                ""
                if proposal.kept is None
                else f", {self.label(self.space.parts[proposal.kept])} as in the best sample"
            )
            self.say(
                f"{self.sample_name()}: {self.text_of_point()} (expected improvement {proposal.improvement:.3f}{kept})"
            )

    def settle(self, why: str) -> None:
        """Stay with the best partition that was measured."""
        best = best_of(self.state.samples)
        if best is None or best.score is None:
            self.take(self.bootstrap[0], holding=True)
            self.say(f"{why}, and no sample has a score: equal parts")
            return
        self.take(np.array(best.units), holding=True)
        met = "all targets met" if best.score >= MET else "no sample met all targets"
        self.say(f"{why}: the best of {len(self.state.samples)} samples stays, {self.text_of_point()} ({met})")

    def hold(self) -> None:
        """Stay, unless targets are missed or loads have changed for longer than the patience."""
        state, best = self.state, best_of(self.state.samples)
        if not self.space.free:
            self.say("only one division is possible")
            return
        if best is None:
            if score(self.observation.services) is not None:
                self.start("all latencies are measured again", 0)
            else:
                self.say(f"equal parts: {self.unmeasured()}")
            return
        services = [s for s in self.observation.services if s.kind == "lc" and s.slack is not None and s.slack < 0]
        missed_ms = {s.name: s.latency_ms or 0.0 for s in services}
        draining = all(ms < state.missed_ms.get(name, inf) for name, ms in missed_ms.items())
        loads, interval_s = _loads(self.observation), self.observation.interval_s
        shifted = sorted(name for name, load in loads.items() if _differ(state.loads.get(name, load), load, interval_s))
        why = ", ".join(
            [*(f"{s.name} {latency_text(s)}" for s in services), *(f"load of {n} changed" for n in shifted)]
        )
        since_s = state.changed_since_s if why else None
        if since_s is None and (shifted or not draining):
            since_s = self.now_s
        patience_s = PATIENCE_S if shifted else PATIENCE_S * 2 ** min(state.failures, MAX_DOUBLINGS)
        if since_s is not None and self.now_s - since_s >= patience_s:
            lasted = since_s - state.asked_s >= LASTING_S
            text = f"{why} for {self.now_s - since_s:.3g} s"
            go_on = self.resume if not shifted and self.has_more(best) else self.start
            go_on(text, 0 if shifted or lasted else state.failures + 1)
            return
        self.say(f"the partition stays: {why or 'all targets met'}")
        loads = state.loads if missed_ms else loads | state.loads
        self.state = replace(state, changed_since_s=since_s, missed_ms=missed_ms, loads=loads)

    def has_more(self, best: Sample) -> bool:
        """The search met no target and is not at its end. One that found nothing more to try begins anew."""
        n_samples = len(self.state.samples)
        unmet = best.score is not None and best.score < MET
        return unmet and n_samples < len(self.bootstrap) + MAX_SAMPLES and n_samples > self.state.resumed_at

    def take(self, point: Units, *, holding: bool = False) -> None:
        """Put a point in force."""
        self.state = replace(
            self.state,
            point=point.ravel().tolist(),
            asked_s=self.now_s,
            tries=1,
            holding=holding,
            loads={},
            missed_ms={},
            changed_since_s=None,
        )

    def infeasible(self) -> Infeasible | None:
        """The services whose targets are missed although the search has ended without meeting all."""
        best = best_of(self.state.samples)
        if not self.state.holding or best is None or best.score is None or best.score >= MET:
            return None
        missed = [s.name for s in self.observation.services if s.slack is not None and s.slack < 0]
        text = f"none of the {len(self.state.samples)} measured partitions met all targets"
        return Infeasible(missed, text) if missed else None

    def sample_name(self) -> str:
        """The sample in the making."""
        return f"sample {len(self.state.samples) + 1}"

    def text_of_point(self) -> str:
        """Who gets how many units of each resource, as "a 4/5" for four cores and five ways."""
        units = np.array(self.state.point).reshape(self.space.shape)
        shares = zip(self.space.parts, units.T.tolist(), strict=True)
        return ", ".join(f"{self.label(part)} {'/'.join(map(str, counts))}" for part, counts in shares if any(counts))

    def label(self, part: str) -> str:
        """A part in words."""
        return part_label(part, self.task.jobs)

    def unmeasured(self) -> str:
        """Which services have no latency."""
        names = [s.name for s in self.observation.services if s.kind == "lc" and s.slack is None]
        return f"no latency of {', '.join(names)}" if names else "no job has a known speed"


def _loads(observation: Observation) -> dict[str, float]:
    """Requests/s of each LC service, where known."""
    return {
        s.name: s.latency.requests_per_s
        for s in observation.services
        if s.kind == "lc" and s.latency is not None and s.latency.requests_per_s is not None
    }


def _differ(before: float, now: float, interval_s: float) -> bool:
    """True where two rates differ by more than a little, and by more than chance (arrivals of a Poisson process)."""
    change = abs(now - before)
    chance = ((now + before) * interval_s) ** 0.5  # standard deviation of the difference of two counts
    return change > LOAD_CHANGE * before and change * interval_s > LOAD_DEVIATIONS * chance
