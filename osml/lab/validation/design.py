"""Which cells there are: a few that calibrate, and a seeded draw of all others, which are predicted first.

Calibration cells have two parts. From the *fit* cells the profile of a service is read. The *margin* cells are
predicted from that profile, and how far off they are begins to teach the next predictions (`learn`). They come out of
the same draw as the held-out cells: only then does the promise of an interval hold for these.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from typing import NamedTuple

from osml.lab.trials.live.services import Service
from osml.lab.validation.cells import Cell, Scheduling

MOST_RATE, MOST_RATE_APART = 8000.0, 20_000.0
"""Requests a second: beyond it the load generator would need as much of its CPU as the service of its own. At
saturation on one CPU, which is not the generator's, it may work harder."""

SATURATION = 1.6
LOADS = (0.3, 0.5, 0.7, 0.85)
COMPANIES: tuple[tuple[str, float, Scheduling], ...] = (
    ("none", 1.0, "normal"),
    ("stress", 1.0, "normal"),
    ("stress", 0.25, "normal"),
    ("stress", 1.0, "idle"),
    ("triad", 0.25, "normal"),
    ("triad", 1.0, "idle"),
    ("service", 1.0, "normal"),
)
JOBS = tuple(sorted({name for name, _, _ in COMPANIES} - {"none", "service"}))
COMPANY_LOAD = 0.25
"""CPUs that another service needs for its own requests while it keeps company."""

MARGIN, MARGIN_SATURATED = 7, 2
LEAST_MARGIN, NEEDED = 12, 9
"""Margin cells of a service below saturation and at it; how many all services have together at least; and how many
quiet ones an interval of 90 % needs."""

IDLE_WEIGHT = 3.0 / 1024.0


def quotas_of(service: Service, work_ms: float) -> tuple[float, float]:
    """A tight and a wide quota in CPUs: light services get little, so that they can be loaded at all."""
    wide = min(MOST_RATE * work_ms / 1000.0 / SATURATION, 0.6 if service.threads == 1 else 1.2)
    wide = max(0.1, round(wide, 1))
    return (max(0.1, round(0.5 * wide, 1)), wide)


def capacity(cell: Cell, threads: int) -> float:
    """CPUs that the service can use at most: its quota, its threads, and its share beside the company's weight."""
    used = min(cell.cpus, threads)
    share = 1.0
    if cell.company.startswith("service:"):
        used = min(used, cell.cpus - COMPANY_LOAD)
    elif cell.company != "none":
        company = IDLE_WEIGHT if cell.scheduling == "idle" else cell.weight
        # A group's weight is divided among the CPUs that it runs on; the job runs on all of the cell's.
        share = (1.0 / used) / (1.0 / used + company / cell.cpus)
    return min(used * share, cell.quota if cell.quota is not None else used * share)


def rate_of(cell: Cell, threads: int, work_ms: float) -> float:
    """Requests a second that are `load` of what the service can do in this cell."""
    return cell.load * capacity(cell, threads) / work_ms * 1000.0


def most_rate(cell: Cell) -> float:
    """Requests a second that the generator may offer in this cell."""
    return MOST_RATE_APART if cell.saturated and cell.cpus == 1 else MOST_RATE


def warm_cell(service: str) -> Cell:
    """The cell that everything begins with. Its CPU time a request sets quotas and the rates of the fit cells."""
    return Cell(service, 1, None, 0.8)


def fit_cells(service: Service, work_ms: float) -> list[Cell]:
    """The cells that the profile is read from. The first one gives the distribution of work, the last two the work at
    saturation with a wide and a tight quota, where a service never sleeps and so spends less a request.
    """
    name, (tight, wide) = service.name, quotas_of(service, work_ms)
    return [
        Cell(name, 2, None, 0.15),
        Cell(name, 1, None, 0.6),
        Cell(name, 2, None, 0.4, "stress", 1.0, "idle"),
        Cell(name, 2, None, 0.4, "triad", 1.0, "idle"),
        Cell(name, 1, wide, SATURATION),
        Cell(name, 1, tight, SATURATION),
    ]


class Drawn(NamedTuple):
    """Cells that no profile is read from: those that set the width of intervals, and those that are judged."""

    margin: list[Cell]
    held_out: list[Cell]


def drawn_cells(
    services: Sequence[Service],
    work_ms: dict[str, float],
    busy_ms: dict[str, float],
    per_service: int,
    saturated: int,
    seed: int,
) -> Drawn:
    """Cells that no profile is read from, drawn for each service and shuffled over all; the same arguments give the
    same.

    `work_ms` is the work of the warm cell, which sets the quotas; `busy_ms` that at saturation, which sets the rates.
    """
    draw = random.Random(seed)  # noqa: S311 - nothing secret
    margin: list[Cell] = []
    held_out: list[Cell] = []
    for service in services:
        work = work_ms[service.name]
        others = [each.name for each in services if each.name != service.name]
        known = {warm_cell(service.name), *fit_cells(service, work)}
        least = math.ceil(LEAST_MARGIN / len(services))
        below, at = max(MARGIN, least), max(MARGIN_SATURATED, least) if saturated else 0
        for loads, first, wanted in ((LOADS, below, per_service), ((SATURATION,), at, saturated)):
            cells: list[Cell] = []
            for cpus, quota, load, (company, weight, scheduling) in itertools.product(
                (1, 2), (None, *sorted(set(quotas_of(service, work)))), loads, COMPANIES
            ):
                if company == "service" and not others:
                    continue
                beside = f"service:{draw.choice(others)}" if company == "service" else company
                cell = Cell(service.name, cpus, quota, load, beside, weight, scheduling)
                if cell not in known and rate_of(cell, service.threads, busy_ms[service.name]) <= most_rate(cell):
                    cells.append(cell)
            chosen = draw.sample(cells, min(first + wanted, len(cells)))
            # Where there are few cells, as many set margins as an interval needs, and half of the rest.
            few = max(math.ceil(NEEDED / len(services)), len(chosen) // 2)
            margin += chosen[: min(first, few)]
            held_out += chosen[min(first, few) :]
    draw.shuffle(margin)
    draw.shuffle(held_out)
    return Drawn(margin, held_out)


def seconds_of(rate: float, least: float, most: float, requests: float = 500.0) -> float:
    """How long to measure: long enough for so many requests, within bounds."""
    return min(max(requests / max(rate, 1e-9), least), most)
