"""One decision of Heracles in the making: the top-level controller and its subcontrollers (ISCA 2015, section 4)."""

from __future__ import annotations

import math
import statistics
from typing import Literal

from msgspec import Struct

from osml.allocation.division import Division
from osml.allocation.policy import latency_text
from osml.domain import Observation, Partition, Reason, Resource, Service
from osml.policies.heracles.best_effort import BestEffort, total

TOP_S, GROW_S, POWER_S, NETWORK_S = 15.0, 2.0, 2.0, 1.0  # periods of algorithms 1 to 4
MOST_TAILS = 300  # of the intervals since the last poll: a state has to stay small
COOLDOWN_S = 300.0  # best effort stays suspended for five minutes after a missed target
LOAD_OFF, LOAD_ON = 0.85, 0.80  # of the LC service's peak: above the one without best effort, below the other with
GROW_SLACK, SHRINK_SLACK = 0.10, 0.05
KEPT_CORES = 2  # of best effort, where the slack is below SHRINK_SLACK
DRAM_LIMIT = 0.90  # of the peak streaming bandwidth
STREAMING = 0.85  # what streaming reaches of the bandwidth on the data sheet (deviation 6)
CLOCK_TOLERANCE = 0.01  # of the guaranteed clock; a measured clock is cycles over time
LINK_RESERVE, LC_RESERVE = 0.05, 0.10  # of the link's rate and of the LC service's traffic: kept free

Phase = Literal["ways", "cores"]  # GROW_LLC and GROW_CORES


class Growth(Struct, frozen=True):
    """What best effort got last, and what was measured before: GB/s of all, instructions of best effort."""

    resource: Phase
    bandwidth_gbps: float | None
    rate: float | None


class TooMuch(Struct, frozen=True):
    """So many units of a resource for best effort made the LC service miss its target: not again before `until_s`."""

    units: int
    until_s: float


class HeraclesState(Struct, frozen=True):
    """`due_s` are node times at which the controllers run next; `tails_ms` are those since the last poll."""

    lc: str = ""
    enabled: bool = True
    growing: bool = True
    cooldown_until_s: float = 0.0
    phase: Phase = "ways"
    growth: Growth | None = None
    too_much: dict[str, TooMuch] = {}
    bandwidth_gbps: float | None = None
    network_mbps: int | None = None  # of best effort together
    due_s: dict[str, float] = {}
    tails_ms: list[float] = []
    violated_since_s: float | None = None
    wanted: Partition | None = None
    time_s: float = 0.0


class Round:
    """One decision in the making. `peak` is the LC service's peak in requests/s, where known."""

    def __init__(
        self, observation: Observation, state: HeraclesState, division: Division, lc: Service, peak: float | None
    ) -> None:
        self.platform, self.now_s = observation.platform, observation.time_s
        self.lc, self.peak = lc, peak
        before = observation.partition or state.wanted
        self.rest = BestEffort(observation, division, lc.name, state.network_mbps, before)
        self.enabled, self.growing = state.enabled, state.growing
        self.cooldown_until_s = state.cooldown_until_s
        self.phase: Phase = state.phase
        self.growth, self.before_gbps = state.growth, state.bandwidth_gbps
        self.too_much = {key: it for key, it in state.too_much.items() if it.until_s > self.now_s}
        self.due_s = dict(state.due_s)
        self.tails_ms = state.tails_ms[-MOST_TAILS:]
        if lc.latency_ms is not None and not division.started:
            self.tails_ms.append(lc.latency_ms)
        self.reasons: list[Reason] = []

    def state(self, wanted: Partition, violated_since_s: float | None) -> HeraclesState:
        """What the next decision has to know."""
        return HeraclesState(
            lc=self.lc.name,
            enabled=self.enabled,
            growing=self.growing,
            cooldown_until_s=self.cooldown_until_s,
            phase=self.phase,
            growth=self.growth,
            too_much=self.too_much,
            bandwidth_gbps=self.before_gbps,
            network_mbps=self.rest.network_mbps,
            due_s=self.due_s,
            tails_ms=self.tails_ms,
            violated_since_s=violated_since_s,
            wanted=wanted,
            time_s=self.now_s,
        )

    def say(self, text: str, resource: Resource | None = None, change: int = 0) -> None:
        """Add a reason; what changes is a change of the LC service."""
        self.reasons.append(Reason(text=text, service=self.lc.name, resource=resource, change=change))

    def start(self) -> None:
        """All for the LC service but what best effort starts with."""
        for name, period_s in (("top", TOP_S), ("grow", GROW_S), ("power", POWER_S), ("network", NETWORK_S)):
            self.due_s[name] = self.now_s + period_s
        self.rest.allot()
        self.network()
        self.say(f"start: {self.lc.name} has the strictest target; {self.rest.division.summary(str(self.rest))}")

    def pass_over(self, obstacle: str, *, again: bool) -> None:
        """Deal with a decision that is not on the machine: nothing to judge, go on from what is there."""
        self.growth = None
        self.say(
            f"{obstacle}; "
            + ("the same request is repeated" if again else "the next step starts from the applied partition")
        )
        if not again:
            self.control()

    def control(self) -> None:
        """The controllers that are due, the top-level one first."""
        if not self.rest.names:
            self.rest.give_up()
            self.say(f"{self.lc.name} is alone on the node: it has all resources")
            return
        if self.due("top", TOP_S):
            self.supervise()
        if self.due("grow", GROW_S) and self.enabled:
            self.grow()
        if self.due("power", POWER_S) and self.enabled:
            self.power()
        if self.due("network", NETWORK_S) and self.enabled:
            self.network()
        if not self.reasons:
            self.say(f"{self.lc.name}: {latency_text(self.lc)}; {self.rest} {self.status}; no controller is due")

    def due(self, name: str, period_s: float) -> bool:
        """True where this controller's period has passed, which begins anew then."""
        if self.now_s + 1e-9 < self.due_s.get(name, 0.0):
            return False
        self.due_s[name] = self.now_s + period_s
        return True

    def supervise(self) -> None:
        """Algorithm 1: may best effort run, may it grow, has it to shrink?"""
        slack, load, rest = self.polled_slack(), self.load(), self.rest
        if slack is None:
            self.say(f"{self.lc.name}: {latency_text(self.lc)}; {rest} still {self.status}")
            return
        shown = f"{self.lc.name}: slack {slack:.2f} over {TOP_S:g} s" + ("" if load is None else f", load {load:.2f}")
        if slack < 0:
            self.cooldown_until_s = self.now_s + COOLDOWN_S
            self.disable(f"{shown}; the target is missed: {rest} is suspended for {COOLDOWN_S:g} s")
            return
        if load is not None and load > LOAD_OFF:
            self.disable(f"{shown}; the load is above {LOAD_OFF:g}: {rest} is suspended")
            return
        self.growing = slack >= GROW_SLACK
        resting = self.now_s < self.cooldown_until_s
        if not self.enabled and not resting and (load is None or load < LOAD_ON):
            self.enabled, self.phase, self.growth = True, "ways", None
            rest.allot()
            self.say(f"{shown}: {rest} may run again; {rest.division.summary(str(rest))}")
        elif self.enabled and slack < SHRINK_SLACK:
            removed = rest.shrink("cores", rest.units("cores") - KEPT_CORES * rest.core_units)
            self.say(f"{shown}; the slack is below {SHRINK_SLACK:g}: {rest} loses {removed} cores", "cores", removed)
        else:
            why = "stays suspended until the pause ends" if resting and not self.enabled else self.status
            self.say(f"{shown}: {rest} {why}" + ("" if self.growing else ", and must not grow"))

    def disable(self, text: str) -> None:
        """Suspend best effort."""
        self.enabled, self.growing, self.growth = False, False, None
        self.rest.suspend()
        self.say(text)

    def grow(self) -> None:
        """Algorithm 2: memory traffic below its limit, then one way or one core more for best effort."""
        gbps = total([service.counters.bandwidth_gbps for service in (self.lc, *self.rest.services)])
        rise = 0.0 if gbps is None or self.before_gbps is None else gbps - self.before_gbps
        grown, self.before_gbps, self.growth = self.growth, gbps, None
        if self.over(gbps) or self.was_wrong(grown, gbps) or not self.growing:
            return
        if self.lc.slack is None:  # nobody would notice what it loses
            return
        if self.phase == "ways" and (self.over_by(gbps, rise) > 0 or not self.give("ways", gbps)):
            self.phase = "cores"
        elif self.phase == "cores":
            if self.over_by(gbps, self.rest.gbps_per_unit() * self.rest.core_units) > 0:
                self.phase = "ways"
            elif self.lc.slack > GROW_SLACK:
                self.give("cores", gbps)

    def over(self, gbps: float | None) -> bool:
        """Above the limit of memory traffic best effort loses the cores that make what is too much."""
        too_much, each, held = self.over_by(gbps, 0.0), self.rest.gbps_per_unit(), self.rest.units("cores")
        if gbps is None or too_much <= 0:
            return False
        # Of jobs without traffic no number of cores makes the difference: they lose all that they can.
        enough = math.isfinite(each) and each * held > too_much
        removed = self.rest.shrink("cores", math.ceil(too_much / each) if enough else held)
        self.say(
            f"memory traffic of {gbps:.1f} GB/s is above the limit of {gbps - too_much:.1f} GB/s: "
            f"{self.rest} loses {removed} cores",
            "cores",
            removed,
        )
        return True

    def over_by(self, gbps: float | None, more_gbps: float) -> float:
        """GB/s by which the traffic with so much more is above the limit; 0 where neither is known."""
        peak = self.platform.bandwidth_gbps
        return 0.0 if gbps is None or peak is None else gbps + more_gbps - DRAM_LIMIT * STREAMING * peak

    def was_wrong(self, grown: Growth | None, gbps: float | None) -> bool:
        """Judge what best effort got last: back where the target is missed, or a way did not lower the traffic."""
        if grown is None:
            return False
        rest, units = self.rest, self.rest.units(grown.resource)
        if self.lc.slack is not None and self.lc.slack < 0:
            self.too_much[grown.resource] = TooMuch(units, self.now_s + COOLDOWN_S)
            removed = rest.shrink(grown.resource, rest.core_units if grown.resource == "cores" else 1)
            text = (
                f"{self.lc.name}: {latency_text(self.lc)}: {rest} loses {removed} {grown.resource} "
                f"and gets no more for {COOLDOWN_S:g} s"
            )
            self.say(text, grown.resource, removed)
            return True
        if grown.resource == "cores":
            return False
        if gbps is not None and grown.bandwidth_gbps is not None and gbps >= grown.bandwidth_gbps:
            self.phase = "cores"
            rest.shrink("ways", 1)
            text = f"{rest} loses 1 way: memory traffic did not fall ({grown.bandwidth_gbps:.2f} to {gbps:.2f} GB/s)"
            self.say(text, "ways", 1)
            return True
        rate = rest.rate()
        if rate is not None and grown.rate is not None and rate <= grown.rate:
            self.phase = "cores"  # best effort has no benefit of more cache
        return False

    def give(self, resource: Phase, gbps: float | None) -> bool:
        """One way or core more for best effort; False where it was too much not long ago, or nothing is left."""
        known, before = self.too_much.get(resource), self.rest.units(resource)
        step = self.rest.core_units if resource == "cores" else 1
        if (known is not None and before + step >= known.units) or not self.rest.grow(resource):
            return False
        self.growth = Growth(resource, gbps, self.rest.rate())
        added = self.rest.units(resource) - before
        self.say(f"{self.rest} gets {added} more {resource}; {self.lc.name}: {latency_text(self.lc)}", resource, -added)
        return True

    def power(self) -> None:
        """Algorithm 3: best effort slows down while the LC service's clock is below the guaranteed one."""
        clock_ghz, guaranteed_ghz = self.lc.counters.frequency_ghz, self.platform.frequency_ghz
        if clock_ghz is None or guaranteed_ghz is None:
            return
        slow = clock_ghz < guaranteed_ghz * (1 - CLOCK_TOLERANCE)
        if self.rest.turn_clock(-1 if slow else 1):
            side, word = ("below", "slower") if slow else ("not below", "faster")
            text = (
                f"{self.lc.name} runs at {clock_ghz:.2f} GHz, {side} {guaranteed_ghz:g} GHz: "
                f"{self.rest} runs one step {word}"
            )
            self.say(text, "frequency", 1 if slow else -1)

    def network(self) -> None:
        """Algorithm 4: best effort may send what the LC service and a reserve leave of the link."""
        link, sent_mbps = self.platform.network_mbps, self.lc.counters.network_mbps
        if link is not None and sent_mbps is not None:
            left_mbps = link.max - sent_mbps - max(LINK_RESERVE * link.max, LC_RESERVE * sent_mbps)
            self.rest.network_mbps = max(0, int(left_mbps))

    def polled_slack(self) -> float | None:
        """Slack of the median tail since the last poll."""
        tails_ms, self.tails_ms = self.tails_ms, []
        if not tails_ms or self.lc.target_ms is None:
            return None
        return 1.0 - statistics.median(tails_ms) / self.lc.target_ms

    def load(self) -> float | None:
        """Load of the LC service as a fraction of its peak; without a known peak its share of all CPU time."""
        latency, cpus = self.lc.latency, self.lc.counters.cpu_usage_cores
        if self.peak and latency is not None and latency.requests_per_s is not None:
            return latency.requests_per_s / self.peak
        return None if cpus is None else cpus / (self.platform.cores * self.platform.core_quantum)

    @property
    def status(self) -> str:
        """Best effort in a word."""
        return "runs" if self.enabled else "is suspended"
