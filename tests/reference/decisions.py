"""The decisions that a scenario applies, as the server would write them, and the agent's configuration."""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml

from osml.domain import Assignment, Decision, Partition, Region
from osml.domain.cpulist import parse_cpulist
from tests.reference.profiles import SERVICES, Profile

NODE = "reference"
CGROUPS = {"web": "lc/web", "db": "lc/db", "job": "be/job"}
FIRST_CPUS = ("0-3", "4-5", "6-7")
SECOND_CPUS = ("0-1", "2-5", "6-7")


def decision(seq: int, cpus: tuple[str, ...], assignments: list[Assignment]) -> Decision:
    """Counts and assignments of one division; the counts follow from the assignments."""
    counts = [len(parse_cpulist(part)) for part in cpus]
    ways = [0 if one.way_mask is None else int(one.way_mask, 16).bit_count() for one in assignments]
    regions = [
        Region(owners=[name], cores=n_cores, ways=n_ways)
        for name, n_cores, n_ways in zip(SERVICES, counts, ways, strict=True)
    ]
    mba = {one.service: one.mba for one in assignments if one.mba is not None}
    return Decision(
        node=NODE,
        seq=seq,
        policy="by-hand",
        partition=Partition(regions=regions, mba=mba),
        assignments=assignments,
    )


def first(profile: Profile) -> Decision:
    """What is applied to the machine as it was found."""
    return _division(profile, 1, FIRST_CPUS, job_quota=1.5, job_weight=50)


def second(profile: Profile) -> Decision:
    """What follows: web gives cores and ways to db, percentages are between the kernel's steps."""
    return _division(profile, 2, SECOND_CPUS, job_quota=0.5, job_weight=20)


def _division(profile: Profile, seq: int, cpus: tuple[str, ...], job_quota: float, job_weight: int) -> Decision:
    assignments = [Assignment(service=name, cpus=part) for name, part in zip(SERVICES, cpus, strict=True)]
    assignments[2] = msgspec.structs.replace(assignments[2], cpu_quota=job_quota, cpu_weight=job_weight)
    can = profile.allocation
    if can is not None:
        masks, mba = (can.first_masks, can.first_mba) if seq == 1 else (can.second_masks, can.second_mba)
        assignments = [
            msgspec.structs.replace(one, way_mask=mask, mba=share)
            for one, mask, share in zip(assignments, masks, mba, strict=True)
        ]
    return decision(seq, cpus, assignments)


def without_job(profile: Profile) -> Decision:
    """The first division with nothing of resctrl for job: two groups, which leaves room for somebody else's."""
    whole = first(profile)
    few = [*whole.assignments[:2], msgspec.structs.replace(whole.assignments[2], way_mask=None, mba=None)]
    return decision(3, FIRST_CPUS, few)


def refused(profile: Profile) -> dict[str, bytes]:
    """Decisions that this machine cannot follow, as JSON, by what is wrong with them."""
    whole = first(profile)
    web = whole.assignments[0]

    def with_web(**changes: object) -> Decision:
        changed = [msgspec.structs.replace(web, **changes), *whole.assignments[1:]]
        return msgspec.structs.replace(whole, assignments=changed)

    stranger = msgspec.structs.replace(web, service="mail")
    bad = {
        "zero-ways": with_web(way_mask="0"),
        "unknown-service": msgspec.structs.replace(whole, assignments=[stranger, *whole.assignments[1:]]),
        "too-many-cpus": with_web(cpus="0-8"),
    }
    if profile.allocation is None:
        bad["ways"] = with_web(way_mask="f")
    else:
        bad["too-wide"] = with_web(way_mask=f"{1 << profile.can.ways:x}")
        if not profile.can.sparse:
            bad["holes"] = with_web(way_mask="5")
    encoded = {name: msgspec.json.encode(one) for name, one in bad.items()}
    encoded["half-written"] = msgspec.json.encode(whole)[:-40]
    return encoded


def configuration(state_dir: str) -> str:
    """agent.yaml of the machine; nobody answers at the server's address."""
    services: list[dict[str, object]] = []
    for name, cgroup in CGROUPS.items():
        service: dict[str, object] = {"name": name, "class": "be", "match": {"cgroup": cgroup}}
        if name != "job":
            service |= {"class": "lc", "target_ms": 10, "latency": {"file": f"/run/node/{name}.jsonl"}}
        services.append(service)
    return yaml.safe_dump(
        {
            "node": NODE,
            "server": {"url": "http://127.0.0.1:9"},
            "interval_s": 0.5,
            "on_exit": "leave",
            "state_dir": state_dir,
            "services": services,
        }
    )


def write_node(directory: Path, profile: Profile) -> list[str]:
    """Puts everything that the scenario reads into `directory`; returns the names of the refused decisions."""
    (directory / "agent.yaml").write_text(configuration("/run/node/state"))
    for name, one in (("first", first), ("second", second), ("without-job", without_job)):
        (directory / f"{name}.json").write_bytes(msgspec.json.encode(one(profile)))
    bad = refused(profile)
    for name, text in bad.items():
        (directory / f"refused-{name}.json").write_bytes(text)
    return sorted(bad)
