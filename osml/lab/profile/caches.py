"""Which caches are simulated: a platform's last level with all its ways, behind the private caches of each thread."""

from __future__ import annotations

from dataclasses import dataclass

from osml.base.failure import InputError
from osml.simulator.models import PlatformModel

LINE_BYTES = 64
_MIB = 1024 * 1024
FEWEST_SETS = 1024
"""Sampled sets that the choice of the sample leaves at least."""


@dataclass(frozen=True)
class Caches:
    """Sizes in KiB and ways of the private caches, sets and ways of the shared one.

    One set in 2^`sample_shift` is simulated. `hashed` draws the set of a line by a hash, since Linux places pages at
    random; without it the set is the line modulo `sets`, as with huge pages. `seed` is that of the hash.
    """

    sets: int
    ways: int
    sample_shift: int = 0
    hashed: bool = True
    seed: int = 0
    l1_kib: int = 32
    l1_ways: int = 8
    l2_kib: int = 256
    l2_ways: int = 8

    @property
    def way_mib(self) -> float:
        """Size of one way."""
        return self.sets * LINE_BYTES / _MIB

    def arguments(self) -> list[str]:
        """Arguments of `osml-stackdist create`."""
        found = ["--sets", str(self.sets), "--ways", str(self.ways), "--sample-shift", str(self.sample_shift)]
        found += ["--seed", str(self.seed), "--l2-kib", str(self.l2_kib), "--l2-ways", str(self.l2_ways)]
        for level in ("l1i", "l1d"):
            found += [f"--{level}-kib", str(self.l1_kib), f"--{level}-ways", str(self.l1_ways)]
        return found if self.hashed else [*found, "--modulo"]


def of_platform(platform: PlatformModel, l2_kib: int, sample: int, seed: int) -> Caches:
    """The caches of a platform of the catalog; one set in `sample` is simulated. Raises InputError for the sample."""
    sets = round(platform.way_mib * _MIB / LINE_BYTES)
    if sample < 1 or sample & (sample - 1) or sets // sample < FEWEST_SETS:
        most = 1 << max((sets // FEWEST_SETS).bit_length() - 1, 0)
        raise InputError(f"--sample is {sample}, expected a power of two from 1 to {most} on {platform.id}")
    return Caches(sets, platform.ways, sample.bit_length() - 1, seed=seed, l2_kib=l2_kib)
