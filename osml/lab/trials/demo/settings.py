"""The knobs of the demo, checked before anything is started."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from osml.base.failure import InputError
from osml.decide.registry import DEFAULT_POLICY, policy_names
from osml.simulator import catalogs

MAX_LOAD = 2.0  # of the published maximum: far beyond saturation


@dataclass(frozen=True)
class DemoSettings:
    """What the demo runs. Times are node seconds, loads are fractions of a service's published maximum."""

    out: Path
    platform: str = "e5-2697v4"
    lc: dict[str, float] = field(default_factory=lambda: {"moses": 0.3, "img-dnn": 0.4, "xapian": 0.2})
    be: tuple[str, ...] = ("stream",)
    step: dict[str, float] = field(default_factory=lambda: {"xapian": 0.3})
    policy: str = DEFAULT_POLICY
    unmanaged_s: int = 60
    managed_s: int = 180
    speed: float = 5.0
    seed: int = 0
    fuse: str = "off"
    port: int | None = None
    agent: Path | None = None

    def check(self) -> None:
        """Raise InputError, naming the knob, where a value has no meaning."""
        self._check_names()
        for name, load in [*self.lc.items(), *self.step.items()]:
            if not math.isfinite(load) or not 0 < load <= MAX_LOAD:
                raise InputError(f"load of '{name}' is {load}, expected above 0 and at most {MAX_LOAD:g}")
        for name in self.step:
            if name not in self.lc:
                raise InputError(f"--step has '{name}', expected a service of this demo: {', '.join(self.lc)}")
        for knob, value in (("--unmanaged-s", self.unmanaged_s), ("--managed-s", self.managed_s)):
            if not 20 <= value <= 3600:
                raise InputError(f"{knob} is {value}, expected 20 to 3600 node seconds")
        if not math.isfinite(self.speed) or not 0.1 <= self.speed <= 20:
            raise InputError(f"--speed is {self.speed}, expected 0.1 to 20 node seconds per second")

    def _check_names(self) -> None:
        for knob, name, known in [
            ("--policy", self.policy, policy_names()),
            ("--platform", self.platform, catalogs.platform_names()),
            ("--fuse", self.fuse, ["auto", "off", "on"]),
            *(("--lc", name, catalogs.service_names()) for name in self.lc),
            *(("--be", name, catalogs.job_names()) for name in self.be),
        ]:
            if name not in known:
                raise InputError(f"{knob} '{name}' is not known; known are {', '.join(known)}")
        if not self.lc:
            raise InputError("no --lc service is given, expected at least one as SERVICE=LOAD")


def parse_loads(texts: list[str], knob: str) -> dict[str, float]:
    """["moses=0.4", ...] -> {"moses": 0.4}. Raises InputError naming the text."""
    loads: dict[str, float] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            loads[name] = float(value)
        except ValueError:
            equals = ""
        if not name or not equals:
            raise InputError(f"{knob} '{text}' is not SERVICE=LOAD, for example moses=0.4")
    return loads
