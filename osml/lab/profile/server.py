"""A server: asked by the load generator, slowly enough for the instrumentation, and measured when it is warm."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osml.base.failure import Failure
from osml.lab.profile.bench import Bench
from osml.lab.profile.caches import Caches
from osml.lab.profile.outcome import Load, Outcome
from osml.lab.trials.children import Interrupted, free_port, interrupt_on_signals, wait_until
from osml.lab.trials.live.generator import Generator, find_generator
from osml.lab.trials.live.services import LOOPBACK, Service, try_fill

_READY_NATIVE_S, _READY_S = 60.0, 400.0  # a server answers within this time, natively and under instrumentation
_FIRST_RATE, _FIRST_RATE_SLOW, _MOST_RATE = 50.0, 4.0, 20_000.0  # requests/s
_LOOKS = 4  # at the CPU time per request, until the rate follows from it
_FEWEST = 4  # requests from which CPU time per request is told
_MOSTLY = 0.8  # share of the requests that a server answers which keeps up
_FEWEST_TICKS = 20  # of CPU time, from which a share outside of the kernel is told


@dataclass(frozen=True)
class Asked:
    """Utilisation of the server's CPUs, seconds that are measured, seconds of warm-up before, and the seed.

    `look_s` is how long one look at the CPU time per request takes.
    """

    utilisation: float = 0.5
    seconds: float = 30.0
    warm_s: float = 10.0
    seed: int = 0
    look_s: float = 2.0


@dataclass(frozen=True)
class _Stretch:
    """What a while under load showed. Times are seconds of CPU."""

    rate: float
    requests: int
    errors: int
    seconds: float
    cpu_s: float
    user_share: float | None

    @property
    def kept_up(self) -> bool:
        """False where requests queue: other programs use the CPUs, or the rate is too high."""
        return self.errors == 0 and self.requests >= _MOSTLY * self.rate * self.seconds


class _Server:
    """A running server with its generator."""

    def __init__(self, bench: Bench, service: Service, seed: int, instrumented: bool) -> None:
        self._bench, self.service = bench, service
        kind = "instrumented" if instrumented else "native"
        port = free_port()
        command = service.command(bench.own_folder(kind), port)
        self._child = bench.start(f"{service.name}-{kind}", command, instrumented)
        self._wait(port, _READY_S if instrumented else _READY_NATIVE_S)
        self._generator = Generator(find_generator(None), [self._spec(port)], seed, self._log(kind), [])
        self._marks = 0

    def _log(self, kind: str) -> Path:
        return self._bench.folder / f"logs/loadgen-{kind}.log"

    def _wait(self, port: int, patience_s: float) -> None:
        try:
            wait_until(lambda: try_fill(self.service, port), self.service.name, [self._child], patience_s)
        except Failure:
            if self._child.exit_code == 0:
                raise Failure(
                    f"{self.service.name} ended with exit code 0 before it answered: if it went into the background, "
                    "use its option that keeps it in the foreground"
                ) from None
            raise

    def _spec(self, port: int) -> str:
        service = self.service
        spec = f"name={service.name},protocol={service.protocol},address={LOOPBACK}:{port},rate=0"
        spec += f",connections={service.connections}"
        if service.requests:
            path = self._bench.folder / "requests"
            path.write_text("\n".join(service.requests) + "\n")
            spec += f",requests={path}"
        return spec

    def load(self, rate: float, seconds: float, begin: Callable[[], None] | None = None) -> _Stretch:
        """Ask at a rate for so long. `begin` is called when it starts."""
        self._generator.set_rates({self.service.name: rate})
        self._mark()
        if begin is not None:
            begin()
        before = (self._bench.cpu_seconds(), self._bench.ticks(), time.monotonic())
        time.sleep(seconds)
        self._child.check()
        seen = self._mark()["services"][self.service.name]
        after = (self._bench.cpu_seconds(), self._bench.ticks(), time.monotonic())
        user, kernel = (late - early for late, early in zip(after[1], before[1], strict=True))
        return _Stretch(
            rate=rate, requests=round(seen["requests_per_s"] * (after[2] - before[2])), errors=int(seen["errors"]),
            seconds=after[2] - before[2], cpu_s=after[0] - before[0],
            user_share=user / (user + kernel) if user + kernel >= _FEWEST_TICKS else None,
        )  # fmt: skip

    def settle(self, first: float, asked: Asked) -> float:
        """The rate at which the server uses that share of its threads' CPUs. Raises Failure where nothing is answered.

        CPU time per request falls while caches, compilers and translated code get warm; so it looks some times.
        """
        rate, wanted = first, asked.utilisation * min(self.service.threads, 2)
        answered = 0
        for _ in range(_LOOKS):
            seen = self.load(rate, max(asked.look_s, 2.0 * _FEWEST / rate))
            answered = seen.requests
            if seen.requests >= _FEWEST and seen.cpu_s > 0.0:
                rate = min(wanted * seen.requests / seen.cpu_s, _MOST_RATE)
                if not seen.kept_up:
                    rate = min(rate, 0.5 * seen.requests / seen.seconds)
            elif seen.requests < _FEWEST:
                rate = max(rate / 2.0, 0.05)
        if answered == 0:
            raise Failure(f"{self.service.name} answered no request at {rate:.3g}/s: is the protocol right?")
        return rate

    def stop(self) -> None:
        """Generator first."""
        self._generator.stop()
        self._bench.stop(self._child)

    def _mark(self) -> dict[str, Any]:
        self._marks += 1
        return self._generator.mark(f"m{self._marks}")


def run_server(service: Service, caches: Caches, asked: Asked, say: Callable[[str], None]) -> Outcome:
    """The service without instrumentation, for its CPU time and latency, then with it. Raises Failure as it fails."""
    interrupt_on_signals()
    began = time.monotonic()
    with Bench(caches, service.user) as bench:
        say(f"{service.name}: without instrumentation")
        native, native_rate = _native(bench, service, asked)
        say(f"{service.name}: instrumented, starting")
        server = _Server(bench, service, asked.seed, instrumented=True)
        try:
            rate = server.settle(_FIRST_RATE_SLOW, asked)
            for _ in range(_LOOKS):
                say(f"{service.name}: warm-up at {rate:.3g} requests/s instead of {native_rate:.0f}")
                if server.load(rate, max(asked.warm_s, _FEWEST / rate)).kept_up:
                    break
                rate /= 2.0
            complete = True
            say(f"{service.name}: measuring for {asked.seconds:g} s")
            seen = _Stretch(rate, 0, 0, 0.0, 0.0, None)
            try:
                seen = server.load(rate, asked.seconds, bench.counts.start)
            except Interrupted:
                complete = False
            bench.counts.stop()
            report = bench.counts.report()
        finally:
            server.stop()
        if complete and seen.requests < _FEWEST:
            raise Failure(
                f"{service.name} answered {seen.requests} requests in {asked.seconds:g} s, expected {_FEWEST} or more: "
                "give more --seconds; requests that take over 10 s are given up"
            )
        load = None
        if complete:
            load = Load(
                utilisation=asked.utilisation, rate=rate, cpu_ms=1000.0 * seen.cpu_s / seen.requests,
                native_rate=native_rate, native_cpu_ms=1000.0 * native.cpu_s / native.requests,
                native_user_share=native.user_share,
                requests=seen.requests, errors=seen.errors,
            )  # fmt: skip
        return Outcome(
            report, time.monotonic() - began, whole=False, complete=complete,
            requests=seen.requests if complete else None, load=load,
        )  # fmt: skip


def _native(bench: Bench, service: Service, asked: Asked) -> tuple[_Stretch, float]:
    server = _Server(bench, service, asked.seed, instrumented=False)
    try:
        rate = server.settle(_FIRST_RATE, asked)
        seen = server.load(rate, 2.0 * asked.look_s)
    finally:
        server.stop()
    if seen.requests == 0:
        raise Failure(f"{service.name} answered no request at {rate:.3g} requests/s without instrumentation")
    return seen, rate
