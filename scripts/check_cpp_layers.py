#!/usr/bin/env python3
"""Checks the `#include "..."` lines of the C++ code against the order of its folders.

Usage: scripts/check_cpp_layers.py [ACTUATOR_DIRECTORY]
Exit codes: 0 when there is no offence, 1 with one sentence an offence.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

# The folders of actuator/src, lowest first. A folder may include itself and the folders above it in this list.
LAYERS: tuple[tuple[str, str], ...] = (
    ("base", "files, numbers, errors, CPU sets and masks: nothing about osml"),
    ("domain", "observations, decisions and their JSON, histograms, fields of protobuf"),
    ("config", "the configuration file"),
    ("cpu", "cgroups, affinity and the processes of a service"),
    ("levers", "memory, disk and real-time priority of a service, the clock of its CPUs, interrupts"),
    ("resctrl", "the kernel's cache and bandwidth control"),
    ("client", "HTTP and the decision server"),
    ("gate", "what is asked and answered about a container that starts"),
    ("locate", "where each service is: its cgroup or its processes"),
    ("telemetry", "what a service reports about itself"),
    ("sense", "what the machine reports about a service"),
    ("bandwidth", "the software regulator and the MBA calibration"),
    ("node", "the mechanisms and knobs that this machine has"),
    ("plan", "what a decision means on this machine, before anything is touched"),
    ("apply", "from a decision to changes of the machine, and back"),
    ("experience", "experiences on their way to the server"),
    ("kubernetes", "what the cluster is told of the node"),
    ("report", "log, audit, record and metrics"),
    ("daemon", "the control loop"),
    ("replay", "a recorded run again"),
    ("nri", "the plugin of container runtimes"),
    ("cli", "the commands"),
    (".", "main.cpp"),
)
# Folders beside actuator/src: what they may include besides themselves.
BESIDE: dict[str, tuple[str, ...]] = {"loadgen": ("base",), "stackdist": ("base",), "latency": ("base", "domain")}
# Headers that the build generates, with the folder they belong to.
GENERATED: dict[str, str] = {
    "agent_schema.h": "cli",
    "nri/api.pb.h": "nri",
    "telemetry/prometheus.pb.h": "telemetry",
    "otlp.pb.h": "latency",
}
# A module is a header with the source file of the same name.
MOST_MODULES = 14

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
Graph = dict[str, list[str]]


def sources(folder: Path) -> list[Path]:
    """The C++ files of a folder and the folders in it, without tests."""
    found = (path for path in folder.rglob("*") if path.suffix in {".h", ".cpp"})
    return sorted(path for path in found if "tests" not in path.relative_to(folder).parts)


def includes(path: Path) -> list[str]:
    """The names in the quoted includes of a file."""
    return INCLUDE.findall(path.read_text(encoding="utf-8"))


def check_source(root: Path, path: Path, graph: Graph) -> Iterator[str]:
    """Offences of one file of actuator/src; its includes go into the graph."""
    ranks = {name: rank for rank, (name, _) in enumerate(LAYERS)}
    name = path.relative_to(root).as_posix()
    folder = path.relative_to(root).parent.as_posix()
    graph[name] = []
    if folder not in ranks:
        yield f"src/{name}: the folder '{folder}' is not in LAYERS; add it to scripts/check_cpp_layers.py."
        return
    for target in includes(path):
        if target not in GENERATED and not (root / target).is_file():
            yield f"src/{name} includes '{target}', which is no file below actuator/src."
            continue
        graph[name].append(target)
        other = GENERATED.get(target, Path(target).parent.as_posix())
        if other in ranks and ranks[other] > ranks[folder]:
            yield f"src/{name} includes '{target}', but '{folder}' is below '{other}' and may not include it."


def check_beside(actuator: Path, beside: str, allowed: tuple[str, ...]) -> Iterator[str]:
    """Offences of a folder beside actuator/src."""
    for path in sources(actuator / beside):
        for target in includes(path):
            if GENERATED.get(target) == beside or (actuator / beside / target).is_file():
                continue
            if Path(target).parent.as_posix() not in allowed or not (actuator / "src" / target).is_file():
                name = path.relative_to(actuator).as_posix()
                yield f"{name} includes '{target}', but {beside} may only include itself and {', '.join(allowed)}."


def check_cycles(graph: Graph) -> Iterator[str]:
    """One sentence for each cycle of includes between files."""
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> Iterator[str]:
        if name in trail:
            yield f"These files include each other: {' -> '.join([*trail[trail.index(name) :], name])}."
        elif name not in done:
            for target in graph.get(name, []):
                yield from visit(target, (*trail, name))
            done.add(name)

    for name in sorted(graph):
        yield from visit(name, ())


def check_sizes(root: Path) -> Iterator[str]:
    """One sentence for each folder with too many modules."""
    for name, _ in LAYERS:
        modules = {path.stem for path in (root / name).glob("*") if path.suffix in {".h", ".cpp"}}
        if len(modules) > MOST_MODULES:
            yield f"src/{name} has {len(modules)} modules; at most {MOST_MODULES} are allowed: split the folder."


def check(actuator: Path) -> list[str]:
    """All offences below the folder actuator/."""
    root = actuator / "src"
    graph: Graph = {}
    offences = [offence for path in sources(root) for offence in check_source(root, path, graph)]
    offences += [offence for beside, allowed in BESIDE.items() for offence in check_beside(actuator, beside, allowed)]
    return [*offences, *check_cycles(graph), *check_sizes(root)]


def main() -> int:
    """Prints the offences."""
    actuator = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "actuator"
    if not (actuator / "src").is_dir():
        print(f"{actuator} has no folder src: give the folder actuator/ of the checkout.")
        return 1
    offences = check(actuator)
    for offence in offences:
        print(offence)
    return 1 if offences else 0


if __name__ == "__main__":
    raise SystemExit(main())
