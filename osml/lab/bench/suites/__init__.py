"""All suites by name."""

from __future__ import annotations

from osml.base.failure import InputError
from osml.lab.bench.suite import Suite
from osml.lab.bench.suites import (
    ahq_constant,
    ahq_dip,
    ahq_equivalence,
    ahq_fluctuating,
    amd_ccx,
    case_a,
    ombm,
    osml_302,
    osml_arrivals,
    osml_changes,
    osml_churn,
    osml_jobs,
    osml_launched,
    osml_machines,
    osml_mismatch,
    osml_unseen,
    parties_diurnal,
    parties_emu,
    two_sockets,
)

SUITES: dict[str, Suite] = {
    module.SUITE.name: module.SUITE
    for module in (
        osml_302,
        case_a,
        osml_churn,
        osml_arrivals,
        osml_changes,
        osml_unseen,
        osml_launched,
        osml_jobs,
        osml_machines,
        osml_mismatch,
        parties_emu,
        parties_diurnal,
        ahq_constant,
        ahq_fluctuating,
        ahq_equivalence,
        ahq_dip,
        ombm,
        two_sockets,
        amd_ccx,
    )
}


def suite(name: str) -> Suite:
    """The suite of that name; InputError lists those that exist."""
    if name not in SUITES:
        raise InputError(f"suite '{name}' is unknown; known are {', '.join(SUITES)}")
    return SUITES[name]
