"""One run: a setting under a policy, with its response times."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from typing import Any

from osml.base.failure import Failure
from osml.dispatch.haproxy.command_socket import RuntimeSocket
from osml.dispatch.haproxy.controller import Controller
from osml.dispatch.haproxy.estimate import Estimates, Priors
from osml.dispatch.haproxy.interference_signal import ScheduleSignal, Switch
from osml.dispatch.haproxy.journal import Journal
from osml.dispatch.haproxy.policies import PolicyName
from osml.dispatch.haproxy.proxy import HaproxyBackend
from osml.lab.testbed.farm import Farm
from osml.lab.testbed.haproxy_process import BACKEND
from osml.lab.testbed.settings import PRONE, DispatchTrialSettings, Setting
from osml.lab.testbed.workload import TRACE_STEPS, switches, utilisation
from osml.lab.trials.live.generator import Generator

CONNECTIONS = 1000
"""Of the generator: requests shall wait in HAProxy's queue, where the controller sees them."""
DRAIN_S = 9.0
"""For what is still waiting at the end; the generator gives a request up after ten seconds."""


@dataclass(frozen=True)
class Run:
    """What one run measured; times in ms from when a request was due."""

    setting: str
    policy: str
    run: int
    requests_per_s: float
    samples: int
    errors: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    lateness_p99_ms: float | None
    interfered_fraction: float
    changes: int
    looks_per_s: float
    controller_cpu: float
    rates: dict[str, float | None]
    thresholds: dict[str, int | None] | None

    def document(self) -> dict[str, Any]:
        """For summary.json."""
        return asdict(self)


def measure(
    farm: Farm, settings: DispatchTrialSettings, setting: Setting, policy: PolicyName, run: int, peaks: dict[str, float]
) -> Run:
    """Run it once. The seed depends on setting and run, not on the policy."""
    number = settings.settings.index(setting)
    seed = settings.seed + 1000 * number + 10 * run
    length = settings.trace_s if setting.trace else settings.run_s
    events = switches(PRONE, settings.alpha, length + DRAIN_S, 2 * (settings.seed + 1000 * number + run // 2) + run % 2)
    rates = [2 * peaks["free"] * u for u in _utilisation(setting, seed)]
    farm.intensity = setting.intensity
    haproxy = HaproxyBackend(
        RuntimeSocket(farm.socket), BACKEND, journal := Journal(farm.directory / "journal", BACKEND)
    )
    haproxy.start()
    estimates = Estimates(Priors(peaks["free"], peaks[setting.intensity], settings.alpha, settings.alpha))
    generator = farm.generator(farm.port, rates[0], CONNECTIONS, seed)
    try:
        generator.mark("begin")
        signal = ScheduleSignal(events, time.monotonic())
        with Controller(haproxy, signal, policy, estimates) as controller:
            looks, cpu = _drive(farm, controller, generator, rates, length, settings.poll_ms / 1000, signal)
            measured = generator.mark("measured")["services"]["web"]
            lookup = controller.lookup
            table = None if lookup is None or lookup.table is None else lookup.table.named()
    finally:
        generator.stop()
        farm.interfere(False)
        journal.close()
    if measured["mean_ms"] is None:
        raise Failure(f"{setting.name} under {policy}: no request was answered")
    names = ("mean_ms", "p50_ms", "p95_ms", "p99_ms", "samples", "errors", "lateness_p99_ms")
    return Run(
        setting.name,
        policy,
        run,
        interfered_fraction=_fraction(events, length),
        changes=controller.status.changes,
        requests_per_s=measured["samples"] / length,
        looks_per_s=looks,
        controller_cpu=cpu,
        thresholds=table,
        rates={rate: getattr(estimates, rate).value for rate in ("arrival", "mu_high", "mu_low")},
        **{name: measured[name] for name in names},
    )


def _drive(
    farm: Farm,
    controller: Controller,
    generator: Generator,
    rates: list[float],
    length: float,
    poll_s: float,
    signal: ScheduleSignal,
) -> tuple[float, float]:
    """The run itself, then until nothing waits. Returns looks per second and the controller's share of a CPU."""
    began, step, looks, burning, cpu = time.monotonic(), 0, 0, False, _cpu_s()
    while True:
        now = time.monotonic()
        place = (now - began) / length
        wanted = len(rates) if place >= 1 else int(place * len(rates))
        if wanted != step:
            generator.set_rates({"web": 0.0 if wanted == len(rates) else rates[wanted]})
            step = wanted
        interfered = signal.read(now).get(PRONE, False)
        if interfered != burning:
            farm.interfere(interfered)
            burning = interfered
        controller.step()
        looks += 1
        status = controller.status
        if place >= 1 and (
            (place - 1) * length > DRAIN_S
            or ((place - 1) * length > 0.1 and not status.queued and not any(status.in_service.values()))
        ):
            return looks / (now - began), (_cpu_s() - cpu) / (now - began)
        time.sleep(max(0.0, now + poll_s - time.monotonic()))


def _utilisation(setting: Setting, seed: int) -> list[float]:
    return [setting.load] if setting.load is not None else utilisation(setting.trace or "", seed)[:TRACE_STEPS]


def _fraction(events: list[Switch], until_s: float) -> float:
    """Share of the run with interference."""
    ends = [*(event.t for event in events[1:]), float("inf")]
    return (
        sum(max(0.0, min(end, until_s) - event.t) for event, end in zip(events, ends, strict=True) if event.interfered)
        / until_s
    )


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system
