"""The page of measured caches: docs/reference/profiles.md and its picture."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from osml.lab.profile.document import NOT_SEEN
from osml.simulator import catalogs
from osml.simulator.models import MemoryBehaviour
from osml.simulator.physics.cache import miss_ratio

NAME = "profiles"
PAGE = Path("docs/reference/profiles.md")
PICTURE = Path("docs/pictures/profiles.png")

ALIKE = {
    "search": "xapian",
    "memcached": "memcached",
    "nginx": "nginx",
    "speech": "sphinx",
    "image": "img-dnn",
    "triad": "stream",
}
"""Programs of the papers that do the same as one of the lab; they had other data and mostly other code."""

_INTRO = """# Caches of real services, measured

For researchers: how many cache misses real programs have, by size of the cache.
Each program ran instrumented, under its own load. Its accesses went through simulated caches of every size at once.
[How to repeat it](../how-to/profile.md). `docs/results/profiles.json` has the data of this page.

MPKI are misses of the last-level cache per 1000 instructions.
The cache is that of `e5-2697v4`: 20 ways of 2.25 MiB, behind an L2 of 256 KiB.
The range is a 95 % interval.
"""

_LOOPS = """## Loops whose misses are known

Their miss ratio follows from a formula. The table has the largest difference over 1 to 16 ways.
The aim is 2 points.
"""

_COMPARED = """## Beside the catalog's assumptions

The catalog has programs of the papers. Nobody published their curves, so the catalog's are assumed or fitted.
The lab's program does the same work with other data.
So the two need not agree. The table says how far apart they are.
"""

_LAW = """## The node's form of the curve

The virtual node describes a curve by three numbers. The error is the root mean square over the 20 sizes.
The last column has the error of one constant.
"""


def _ranged(value: float, error: float) -> str:
    return f"{value:.3g} ± {error:.2g}"


def _programs(document: dict[str, Any]) -> str:
    head = (
        "| program | instructions a request | accesses | 1 way | 4 ways | 20 ways | 1 way, with prefetcher "
        "| memory touched, MiB | took, s | CPU time, times native |"
    )
    lines = [head, "|---|" + "---:|" * 9]
    for one in document["programs"]:
        ahead = one["with_stream_prefetcher"]
        per = one["instructions_per_request"]
        load = one["load"]
        slower = "" if load is None or load["slow_down"] is None else f"{load['slow_down']:.0f}"
        cells = [_ranged(one["mpki"][way - 1], one["mpki_error"][way - 1]) for way in (1, 4, 20)]
        cells.append(_ranged(ahead["mpki"][0], ahead["mpki_error"][0]))
        lines.append(
            f"| {one['name']} | {'' if per is None else f'{per:,.0f}'} | {_ranged(one['apki'], one['apki_error'])} | "
            + " | ".join(cells)
            + f" | {one['footprint_mib']:.3g} | {one['seconds']:.0f} | {slower} |"
        )
    return "\n".join(lines) + "\n"


def _failed(document: dict[str, Any]) -> str:
    if not document["failed"]:
        return ""
    lines = [f"- {one['name']}: {one['why']}" for one in document["failed"]]
    return "\nNot profiled:\n\n" + "\n".join(lines) + "\n"


def _loops(document: dict[str, Any]) -> str:
    lines = ["| loop | largest difference, points |", "|---|---:|"]
    lines += [f"| {one['name']} | {100.0 * one['largest']:.2f} |" for one in document["loops"]]
    return "\n".join(lines) + "\n"


def _laws(document: dict[str, Any]) -> str:
    head = "| program | least miss ratio | half-miss size, MiB | steepness | error, MPKI | constant, MPKI |"
    lines = [head, "|---|" + "---:|" * 5]
    for one in document["programs"]:
        fit = one["law"]
        lines.append(
            f"| {one['name']} | {fit['miss_min']:.3g} | {fit['working_set_mib']:.3g} | {fit['steepness']:.3g} "
            f"| {fit['rms']:.2g} | {fit['constant_rms']:.2g} |"
        )
    return "\n".join(lines) + "\n"


def assumed(name: str) -> MemoryBehaviour | None:
    """What the catalog says of the program of a paper that is like this one; None where there is none."""
    other = ALIKE.get(name)
    if other is None:
        return None
    if other in catalogs.service_names():
        return catalogs.service(other).memory
    return catalogs.job(other).memory if other in catalogs.job_names() else None


def _assumed_mpki(memory: MemoryBehaviour, mib: float) -> float:
    return memory.apki * miss_ratio(memory.miss_min, memory.working_set_mib, memory.steepness, mib)


def _compared(document: dict[str, Any]) -> str:
    head = "| program | of the papers | accesses | theirs | MPKI, 1 way | theirs | MPKI, 20 ways | theirs |"
    lines = [head, "|---|---|" + "---:|" * 6]
    for one in document["programs"]:
        memory = assumed(one["name"])
        if memory is None:
            continue
        cells = [f"{one['apki']:.3g}", f"{memory.apki:.3g}"]
        for way in (1, 20):
            cells += [f"{one['mpki'][way - 1]:.3g}", f"{_assumed_mpki(memory, way * one['way_mib']):.3g}"]
        lines.append(f"| {one['name']} | {ALIKE[one['name']]} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _limits(document: dict[str, Any]) -> str:
    notes = list(dict.fromkeys([*(note for one in document["programs"] for note in one["notes"]), *NOT_SEEN]))
    return "## What is not measured\n\n" + "\n".join(f"- {note}" for note in notes) + "\n"


def page(document: dict[str, Any]) -> str:
    """The page as Markdown."""
    return "\n".join([
        _INTRO, _programs(document) + _failed(document),
        f"![MPKI over the size of the cache](../pictures/{PICTURE.name})\n",
        _LOOPS, _loops(document), _LAW, _laws(document), _COMPARED, _compared(document), _limits(document),
    ])  # fmt: skip


def draw(document: dict[str, Any], path: Path) -> None:
    """A panel for each program: measured with its 95 % interval, with the prefetcher, and the catalog's assumption."""
    mpl: Any = importlib.import_module("matplotlib")
    mpl.use("Agg")
    plt: Any = importlib.import_module("matplotlib.pyplot")
    programs = document["programs"]
    columns = 4
    rows = max(-(-len(programs) // columns), 1)
    figure, axes = plt.subplots(rows, columns, figsize=(13, 2.9 * rows), layout="constrained", squeeze=False)
    for axis in axes.flat[len(programs) :]:
        axis.axis("off")
    for axis, one in zip(axes.flat, programs, strict=False):
        sizes = [way * one["way_mib"] for way in one["ways"]]
        axis.errorbar(sizes, one["mpki"], one["mpki_error"], label="measured", capsize=2, linewidth=1.2)
        ahead = one["with_stream_prefetcher"]
        axis.errorbar(sizes, ahead["mpki"], ahead["mpki_error"], label="with a prefetcher", capsize=2, linewidth=1.0)
        memory = assumed(one["name"])
        if memory is not None:
            theirs = [_assumed_mpki(memory, size) for size in sizes]
            axis.plot(sizes, theirs, "k--", linewidth=0.9, label=f"catalog: {ALIKE[one['name']]}")
        axis.set(title=one["name"], xlabel="MiB", ylabel="MPKI")
        axis.set_ylim(bottom=0)
        axis.legend(fontsize=7)
    figure.suptitle("Misses per 1000 instructions over the size of the last-level cache (caches simulated)")
    figure.savefig(path, dpi=100)
    plt.close(figure)
