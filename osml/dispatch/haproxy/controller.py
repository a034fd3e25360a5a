"""The control loop of `osml run dispatch`: look, estimate, decide, apply, a thousand times a second.

Three things can be lost, and none of them may leave a server out: HAProxy (a new one starts as it is configured, and is
taken over from there), the interference signal (the original state is restored until it is back), this process (the
journal knows the original state, see journal).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from osml.dispatch.haproxy.command_socket import HaproxyGoneError
from osml.dispatch.haproxy.counters import Tally
from osml.dispatch.haproxy.estimate import Estimates
from osml.dispatch.haproxy.interference_signal import Reading, Signal
from osml.dispatch.haproxy.policies import POLICIES, PolicyName, PolicyState
from osml.dispatch.haproxy.proxy import HaproxyBackend
from osml.dispatch.mdp.lookup import ThresholdLookup

AWAY_PAUSE_S = 0.05
RESTORE_WITHIN_S = 3.0
LOOKUP_EVERY_S = 0.25


@dataclass(frozen=True)
class Status:
    """Where the loop stands; what a line of `osml run dispatch` is made of."""

    seconds: float
    mode: str  # "controlling", "released" (no fresh signal), "away" (no HAProxy)
    queued: int
    in_service: Mapping[str, int]
    states: Mapping[str, str]  # HAProxy's words, such as UP, DRAIN, DOWN
    interfered: Reading
    slots: Mapping[str, int]
    changes: int
    lost: int
    restarts: int
    away_reason: str | None = None


class Controller:
    """One backend under one policy. Use in a `with` block: what it changed is put back at the end."""

    def __init__(
        self,
        haproxy: HaproxyBackend,
        signal: Signal,
        policy: PolicyName,
        estimates: Estimates,
        *,
        limit_interfered: int = 1,
        lookup: ThresholdLookup | None = None,
    ) -> None:
        self._haproxy, self._signal = haproxy, signal
        self._policy, self.estimates = POLICIES[policy], estimates
        self._limit_interfered = limit_interfered
        self.lookup = lookup or (ThresholdLookup() if policy == "threshold" else None)
        self._own_lookup = lookup is None
        self._state, self._tally = PolicyState(), Tally()
        self._started = self._looked_up = time.monotonic()
        self.status = Status(0.0, "released", 0, {}, {}, {}, {}, 0, 0, 0)
        self._changes = 0
        self.restored = False

    def __enter__(self) -> Controller:
        """The loop runs by step() or run()."""
        return self

    def __exit__(self, *_: object) -> None:
        self._signal.stop()
        if self.lookup is not None and self._own_lookup:
            self.lookup.stop()
        if not self._haproxy.changed:
            self.restored = True
            return
        deadline = time.monotonic() + RESTORE_WITHIN_S
        while time.monotonic() < deadline:
            # A HAProxy that is away may be restarting, with our drains in its state file.
            with contextlib.suppress(HaproxyGoneError):
                self._haproxy.restore()
                self.restored = True
                return
            time.sleep(AWAY_PAUSE_S)

    def step(self) -> bool:
        """One look and what follows from it. False while HAProxy is away. Raises Failure where it refuses commands."""
        now = time.monotonic()
        interfered = self._signal.read(now)
        try:
            rows = self._haproxy.read()
            slots = self._control(now, interfered) if interfered else self._release()
        except HaproxyGoneError:
            self._tally.forget()
            self._say(now, "away", interfered, {})
            return False
        sample = self._tally.look(rows, interfered, now)
        if sample is not None:
            self.estimates.add(sample)
        self._say(now, "controlling" if interfered else "released", interfered, slots)
        return True

    def run(self, stopped: Callable[[], bool], poll_s: float) -> None:
        """Steps until `stopped()`; looks are not caught up on when one takes long."""
        while not stopped():
            began = time.monotonic()
            pause = poll_s if self.step() else AWAY_PAUSE_S
            time.sleep(max(0.0, began + pause - time.monotonic()))

    def _control(self, now: float, interfered: Reading) -> Mapping[str, int]:
        observation = self._haproxy.observe(interfered, self._limit_interfered)
        if self.lookup is not None:
            self._look_up(now, len(observation.usable))
        decision, self._state = self._policy(observation, self._state)
        self._changes += self._haproxy.apply(decision)
        return decision.slots

    def _look_up(self, now: float, servers: int) -> None:
        if self.lookup is None or now - self._looked_up < LOOKUP_EVERY_S:
            return
        self._looked_up = now
        parameters = self.estimates.parameters(servers) if servers else None
        if parameters is not None:
            self.lookup.ask(parameters)
        if self._state.table is not self.lookup.table:
            self._state = PolicyState(self.lookup.table, self._state.kept)

    def _release(self) -> Mapping[str, int]:
        """No fresh signal: HAProxy as its operator configured it."""
        if self._haproxy.changed:
            self._haproxy.restore()
        return {}

    def _say(self, now: float, mode: str, interfered: Reading, slots: Mapping[str, int]) -> None:
        rows, outages = self._haproxy.rows, self._haproxy.outages
        in_service = {name: row.in_service for name, row in rows.servers.items()}
        self.status = Status(
            now - self._started,
            mode,
            rows.queued,
            in_service,
            {name: row.status for name, row in rows.servers.items()},
            interfered,
            slots,
            self._changes,
            outages.lost,
            outages.restarts,
            outages.reason,
        )
