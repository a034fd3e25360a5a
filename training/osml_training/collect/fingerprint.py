"""The fingerprint of a platform of the catalog, as the traces of a sweep carry it."""

from __future__ import annotations

from osml.datasets.description import Fingerprint
from osml.simulator.models import PlatformModel


def virtual_fingerprint(model: PlatformModel) -> Fingerprint:
    """A platform of the catalog. What only a real machine has (stepping, microcode, kernel, governor) is None."""
    return Fingerprint(
        id=model.id,
        cpu_model=model.cpu,
        logical_cpus=model.cpus,
        physical_cores=model.physical_cores,
        smt=model.cpus > model.physical_cores,
        base_ghz=model.frequency_ghz,
        turbo_ghz=model.turbo_ghz,
        llc_mib=model.ways * model.way_mib,
        llc_ways=model.ways,
        way_mib=model.way_mib,
        bandwidth_gbps=min(model.bandwidth_gbps, model.link_gbps),
        memory_gib=model.memory_gib,
        mba=model.mba,
    )
