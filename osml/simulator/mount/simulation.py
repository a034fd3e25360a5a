"""Engine and emulated kernel, moved forward together in node time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from osml.simulator.engine import checked_loads
from osml.simulator.kernel.machine import Machine
from osml.simulator.measure import Measurement, measure
from osml.simulator.sockets import advance, initial
from osml.simulator.state import Flow, Node

STEPS_PER_INTERVAL = 4


class Simulation:
    """One virtual node in motion. The same seed, loads and commands give the same measurements."""

    def __init__(
        self,
        node: Node,
        machine: Machine,
        loads: Mapping[str, float],
        interval_s: float,
        seed: int,
    ) -> None:
        checked_loads(node, loads)
        self.node = node
        self.machine = machine
        self.interval_s = interval_s
        self.step_s = interval_s / STEPS_PER_INTERVAL
        self._loads = dict(loads)
        self._rng = np.random.default_rng(seed)
        self._state = initial(node, machine.sockets)
        self._pending: list[list[Flow]] = []

    @property
    def time_s(self) -> float:
        """Node time at the end of the last step."""
        return self._state.time_s

    @property
    def loads(self) -> dict[str, float]:
        """Loads as fractions of max load."""
        return dict(self._loads)

    def set_loads(self, loads: Mapping[str, float]) -> None:
        """Change some loads; raises NodeInputError and changes nothing where one is wrong."""
        checked_loads(self.node, loads)
        self._loads.update(loads)

    def step(self) -> list[Measurement] | None:
        """One step; at the end of an interval the measurements of all tenants."""
        shocks = self._rng.standard_normal(len(self.node.tenants))
        grants = self.machine.grants()
        self._state, flows = advance(
            self.node, self.machine.sockets, self._state, grants, self._loads, self.step_s, shocks
        )
        self.machine.account(flows, self._state.time_s)
        self._pending.append(flows)
        if len(self._pending) < STEPS_PER_INTERVAL:
            return None
        done = [measure([flows[i] for flows in self._pending], self._rng) for i in range(len(self.node.tenants))]
        self._pending.clear()
        return done
