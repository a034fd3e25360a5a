"""A record replayed on a twin: its own decisions and those of another policy, on the same members and noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from osml.base.failure import InputError
from osml.decide.registry import policy_names
from osml.domain import Partition
from osml.records import Record
from osml.simulator.columns import FloatArray
from osml.twin.closed import MEMBERS, run_along
from osml.twin.document import Twin, check_machine, check_tenants
from osml.twin.ensemble import judged_by
from osml.twin.machine import NOT_MODELLED
from osml.twin.recorded import Recorded
from osml.twin.scenes import check_one_cache, rate_of, tenants_of
from osml.twin.trajectory import names_of


@dataclass(frozen=True)
class Consequences:
    """Both runs: latencies in ms (members, intervals, services), E_S (members, intervals), decisions of the policy.

    NaN where there is none, as of a service without load.
    """

    names: list[str]
    recorded_ms: FloatArray
    policy_ms: FloatArray
    recorded_e_s: FloatArray
    policy_e_s: FloatArray
    decided: list[Partition]
    cannot_show: list[str]

    def row(self, at: int) -> dict[str, Any]:
        """The predicted difference of one interval, with 90 % bounds over the members; None where there is none."""
        services = {
            name: _difference(self.recorded_ms[:, at, place], self.policy_ms[:, at, place], "_ms")
            for place, name in enumerate(self.names)
        }
        return {"services": services, "e_s": _difference(self.recorded_e_s[:, at], self.policy_e_s[:, at], "")}

    def overall(self) -> dict[str, Any]:
        """The same over all intervals: of the medians of the latencies, and of the mean E_S."""
        services = {
            name: _difference(
                _each(self.recorded_ms[:, :, place], np.median), _each(self.policy_ms[:, :, place], np.median), "_ms"
            )
            for place, name in enumerate(self.names)
        }
        means = _each(self.recorded_e_s, np.mean), _each(self.policy_e_s, np.mean)
        return {"services": services, "e_s": _difference(*means, "")}


def _each(rows: FloatArray, over: Callable[[FloatArray], Any]) -> FloatArray:
    """A number a member (the rows) over its intervals, without those that have none; NaN where no interval has one."""
    known = [row[np.isfinite(row)] for row in rows]
    return np.array([over(row) if len(row) else np.nan for row in known])


def _difference(recorded: FloatArray, policy: FloatArray, unit: str) -> dict[str, float | None]:
    names = (f"recorded{unit}", f"policy{unit}", f"difference{unit}", "low", "high")
    both = np.isfinite(recorded) & np.isfinite(policy)
    if not both.any():
        return dict.fromkeys(names)
    low, half, high = np.quantile((policy - recorded)[both], [0.05, 0.5, 0.95]).tolist()
    found = (float(np.median(recorded[both])), float(np.median(policy[both])), half, low, high)
    return dict(zip(names, found, strict=True))


def _uncounted(record: Record) -> list[str]:
    """Services with a latency, of which no interval has a count of requests."""
    services = [one for line in record.lines for one in line.observation.services if one.kind == "lc"]
    counted = {one.name for one in services if rate_of(one) is not None}
    return sorted({one.name for one in services if one.latency_ms is not None} - counted)


def consequences(twin: Twin, record: Record, policy: str, *, members: int = MEMBERS, seed: int = 0) -> Consequences:
    """Run the twin along a record, as recorded and under a policy. The same seed gives the same runs.

    Targets are those of the record, as limits are.

    Raises InputError for an unknown policy, another machine, or services that `check_tenants` refuses.
    """
    check_one_cache(line.observation for line in record.lines)
    if policy not in policy_names():
        raise InputError(f"policy '{policy}' is unknown; known are {', '.join(policy_names())}")
    check_machine(twin, record.node, (line.observation.platform for line in record.lines), "the record")
    check_tenants(twin, (line.observation for line in record.lines), "the record")
    ensemble = judged_by(twin.ensemble, tenants_of(record))
    recorded = Recorded(record)
    as_recorded = run_along(ensemble, record, recorded, members=members, seed=seed)
    under = run_along(ensemble, record, policy, members=members, seed=seed)
    cannot = [] if not record.gaps else ["what happened in gaps of the record: the twin runs on as if there were none"]
    if any(len(line.observation.services) != len(twin.tenants) for line in record.lines):
        cannot.append("coming and going: who is not there has no load, but keeps its share; jobs are always there")
    cannot += [f"{name}: its requests are not counted, so it has no load there" for name in _uncounted(record)]
    levers = [name for name in NOT_MODELLED if getattr(ensemble.platform, name) is not None]
    if levers:
        cannot.append(f"{', '.join(levers)}: these levers do nothing on a twin, so no policy has them there")
    unfit = recorded.unfit(ensemble.platform, [one.name for one in ensemble.tenants])
    if unfit:
        cannot.append(
            f"{unfit:,} of the record's {len(record.lines):,} partitions, which are not for everybody on the twin, or "
            "not for its machine: as recorded, all share all there"
        )
    return Consequences(
        names_of(ensemble),
        as_recorded.latency_ms,
        under.latency_ms,
        as_recorded.e_s,
        under.e_s,
        under.partitions,
        cannot,
    )
