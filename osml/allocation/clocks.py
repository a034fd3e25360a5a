"""Clock limits of services: nothing that is divided, each service has its own (PARTIES, sections 3.4 and 4.2.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from osml.domain import Partition, Platform

_MAX_RUNGS = 256


class Clocks(NamedTuple):
    """A rung of the ladder for each service. `ladder` is in MHz, slow to fast; its top, None, is no limit (turbo)."""

    ladder: tuple[int | None, ...]
    rungs: Mapping[str, int]

    def mhz(self, name: str) -> int | None:
        """The limit of a service; None = turbo."""
        return self.ladder[self.rungs[name]]

    def moved(self, name: str, rungs: int) -> Clocks | None:
        """Up (faster) or down by so many rungs; None where the ladder ends."""
        rung = self.rungs.get(name, -1) + rungs
        return self._replace(rungs={**self.rungs, name: rung}) if self._has(name, rung) else None

    def limits(self) -> dict[str, int | None]:
        """The limit of every service, as a partition writes it."""
        return {name: self.mhz(name) for name in self.rungs}

    def _has(self, name: str, rung: int) -> bool:
        return name in self.rungs and 0 <= rung < len(self.ladder)


def clocks_of(
    platform: Platform, names: Sequence[str], before: Partition | None, *, turbo: bool = False
) -> Clocks | None:
    """Clocks as a partition has them; who is not in it starts at the nominal clock, or with `turbo` without a limit.

    The ladder goes in steps up to the nominal clock; one more step is turbo, where the processor decides (PARTIES,
    table 3). None where the node can't limit clocks.
    """
    limits = platform.frequency_mhz
    if limits is None:
        return None
    nominal = limits.max if platform.frequency_ghz is None else round(platform.frequency_ghz * 1000)
    nominal = max(limits.min, min(limits.max, nominal))
    step = max(limits.step, -(-(nominal - limits.min) // _MAX_RUNGS))
    ladder = (*range(limits.min, nominal, step), nominal, None)
    start = len(ladder) - (1 if turbo else 2)
    known = {owner for region in (before.regions if before is not None else []) for owner in region.owners}

    def rung(name: str) -> int:
        if before is None or name not in known:
            return start
        knobs = before.knobs.get(name)
        mhz = None if knobs is None else knobs.frequency_mhz
        if mhz is None:
            return len(ladder) - 1
        return max((i for i, step in enumerate(ladder) if step is not None and step <= mhz), default=0)

    return Clocks(ladder, {name: rung(name) for name in names})
