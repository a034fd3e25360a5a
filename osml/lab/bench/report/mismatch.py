"""Policy by condition: missed targets, E_S, cores and ways, on feasible and infeasible mixes, with jobs and without."""

from __future__ import annotations

from collections.abc import Sequence

from osml.lab.bench.episode import Row
from osml.lab.bench.report.document import Section, Table
from osml.lab.bench.report.statistics import mean
from osml.lab.bench.results import Results
from osml.simulator.variation.conditions import CONDITIONS

_COLUMNS = (
    ("target_missed_share", ".1%"),
    ("e_s", ".3f"),
    ("cores_used", ".1f"),
    ("ways_used", ".1f"),
)
_HEADING = "missed / E_S / cores / ways"
_JOB = "be:"


def conditions(results: Results) -> Section:
    """What the conditions are, and how many of their mixes are feasible."""
    rows: list[list[str]] = []
    for part in results.parts:
        group = results.only(part)
        counts = [str(group.mixes(said)) for said in (True, False, None)]
        rows.append([part, CONDITIONS[part].about, *counts])
    total = [str(results.mixes(said)) for said in (True, False, None)]
    table = Table(
        ["condition", "what differs", "feasible", "infeasible", "undecided"], [*rows, ["all", "", *total]], "mixes"
    )
    text = [
        "The mixes of a condition are those of `nominal`, but for `machines`. Feasible means that the oracle, or one "
        "of some good partitions, meets all targets at constant load; with a drift at each moment of much work. "
        "Policies see the changed observations, the results are the true values."
    ]
    return Section("Conditions", text, [table])


def by_condition(results: Results) -> list[Section]:
    """One table a group of mixes."""
    found: list[Section] = []
    for label, group in results.by_feasibility().items():
        for title, rows in _with_and_without_jobs(group.rows):
            found.append(Section(f"Mixes {title}{label}", [], [_table(results, rows)]))
    return found


def coverage(results: Results) -> Section | None:
    """Predicted bounds against the truth at the end of the runs; None where no policy has forecasts."""
    rows: list[list[str]] = []
    for policy in results.policies:
        for part in (*results.parts, None):
            found = [row for row in results.of(part, policy) if row["bound_forecasts"] is not None]
            total = sum(row["bound_forecasts"] for row in found)
            left = [sum(row[f"bound_{name}"] or 0 for row in found) for name in ("unfamiliar", "unjudged")]
            if total or any(left):
                held = (_share(found, name, total) for name in ("cores", "ways", "oaa"))
                rows.append([policy, part or "all", str(total), *held, *(str(count) for count in left)])
    if not rows:
        return None
    text = [
        "Forecasts of the last decision against the surface of the service in that company. `RCliff cores` and `ways` "
        "are the shares of services whose RCliff is not above its upper bound; the bounds promise 90 % for each. `OAA` "
        "is the share whose OAA needs no more than predicted, in cores and in ways, without any bound. Two kinds of "
        "forecast are not among these services: where the model itself says that it does not know the service "
        "(`unfamiliar`), and on nodes too large for the true surface (`not judged`)."
    ]
    headings = ["policy", "condition", "services", "RCliff cores", "RCliff ways", "OAA", "unfamiliar", "not judged"]
    return Section("Predicted bounds at the end of the runs", text, [Table(headings, rows, "share that holds")])


def _share(rows: Sequence[Row], name: str, total: int) -> str:
    return f"{sum(row[f'bound_{name}'] for row in rows) / total:.0%}" if total else "-"


def _with_and_without_jobs(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    split = (("without jobs", False), ("beside a job", True))
    found = [(title, [row for row in rows if (_JOB in row["mix"]) is beside]) for title, beside in split]
    return [(title, group) for title, group in found if group]


def _table(results: Results, rows: Sequence[Row]) -> Table:
    """A row a condition, a column a policy, and a last row of all conditions."""
    parts = [part for part in results.parts if any(row["part"] == part for row in rows)]
    lines = [_line(part, [row for row in rows if row["part"] == part], results.policies) for part in parts]
    return Table(["condition", "mixes", *results.policies], [*lines, _line("all", rows, results.policies)], _HEADING)


def _line(name: str, rows: Sequence[Row], policies: Sequence[str]) -> list[str]:
    cells = [_cell([row for row in rows if row["policy"] == policy]) for policy in policies]
    return [name, str(len({row["case"] for row in rows})), *cells]


def _cell(rows: Sequence[Row]) -> str:
    known = [(column, form, [row[column] for row in rows if row[column] is not None]) for column, form in _COLUMNS]
    return " / ".join(f"{mean(values).value:{form}}" if values else "-" for _, form, values in known)
