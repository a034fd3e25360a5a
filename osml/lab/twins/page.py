"""The page docs/reference/twin.md, made from docs/results/twin.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_Row = Mapping[str, Any]
_INTRO = """# How good twins are

For operators and researchers: how far to trust [twins](../how-to/advise.md). Every number on this page is simulated.
Hidden nodes are virtual nodes of the suite `osml-mismatch` under the condition `{condition}`.
A twin sees only their record. The names of the services reveal nothing.
{seeds}

Made on {date} with `{command}`.
"""


_HELD_OUT = "Nobody looked at the seeds of these nodes before the method was fixed."
_LOOKED_AT = "The method was made with these seeds: nothing on this page is held out."


def page(found: _Row) -> str:
    """The page of a document of `python -m osml.lab.twins`."""
    seeds = _LOOKED_AT if found["development"] else _HELD_OUT
    parts = [
        _INTRO.format(condition=found["condition"], date=found["date"], command=found["command"], seeds=seeds),
        _check(found),
        _whatif(found),
        _blame(found),
    ]
    return "\n".join(parts)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    line = ["|" + "|".join("---" if at == 0 else "---:" for at in range(len(heads))) + "|"]
    return "\n".join(["| " + " | ".join(heads) + " |", *line, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _check(found: _Row) -> str:
    keys = ("median_error", "p90_error", "within_25pct", "coverage_90")
    heads = ("predictor", "median error", "90 % of errors below", "within 25 %", "held by 90 % bounds")
    rows = [[f"{name}: {one['knows']}", *[_percent(one[key]) for key in keys]] for name, one in found["check"].items()]
    kinds = [
        [kind, *[_percent(one["twin"][key]) for key in keys], _percent(one["mean_by_load"]["median_error"])]
        for kind, one in found["check_by_record"].items()
    ]
    return (
        "## The next part of a record\n\n"
        f"{found['nodes']} nodes. The twin is fitted to the first 20 minutes and predicts the next 10. "
        "What is predicted is the latency of each interval at the target's percentile.\n\n"
        f"{_table(heads, rows)}\nThe twin by the kind of its record, and the median error of `mean_by_load`:\n\n"
        f"{_table(('record', *heads[1:], 'mean by load'), kinds)}"
    )


def _whatif(found: _Row) -> str:
    whatif = found["whatif"]

    def row(name: str, one: _Row) -> list[str]:
        return [
            name, str(one["experiments"]), str(one["rows"]), str(one["signed"]), _percent(one["sign_right"]),
            _percent(one["within_bounds"]), _percent(one["within_bounds_signed"]), _percent(one["median_error"]),
            _percent(one["median_error_no_change"]), _percent(one["median_error_last_time"]),
        ]  # fmt: skip

    heads = (
        "", "experiments", "changes", "plain ones", "sign right", "size in bounds", "of plain ones", "median error",
        "of `no change`", "of `last time`",
    )  # fmt: skip
    total = [row("services: latency", whatif["services"]), row("jobs: speed", whatif["jobs"])]
    each = [row(name, one) for name, one in whatif["by_experiment"].items()]
    services = whatif["services"]
    return (
        "## What if\n\n"
        "The truth is the hidden node's own outcome with the same loads, drift and chance. "
        "Each experiment gives one change for each service or job. "
        "A change is plain if the truth is more than 5 %; only plain changes have a sign that can be right. "
        "`no change` predicts that nothing changes, so it has no sign right. "
        "`last time` takes the latency of the record's scene with the nearest load. It knows only changes of the "
        f"service's own load. Of the {services['own_load_signed']} plain ones among these it has "
        f"{_percent(services['sign_right_last_time'])} of the signs right, and the twin has "
        f"{_percent(services['sign_right_own_load'])}.\n\n"
        f"{_table(heads, total)}\nServices by experiment:\n\n{_table(heads, each)}"
    )


def _blame(found: _Row) -> str:
    blame = found["blame"]
    heads = (
        "cases", "number", "right culprit", "right culprit and resource", "named", "right where named",
        "simple: right culprit", "simple: both right",
    )  # fmt: skip

    def row(name: str, one: _Row) -> list[str]:
        if not one["cases"]:
            return [name, "0", *["-"] * 6]
        return [
            name, str(one["cases"]), _percent(one["right_culprit"]), _percent(one["right"]), str(one["named"]),
            _percent(one["right_when_named"]), _percent(one["simple_right_culprit"]), _percent(one["simple_right"]),
        ]  # fmt: skip

    rows = [row("all", blame["overall"]), *(row(kind, one) for kind, one in blame["by_resource"].items())]
    return (
        f"## Blame\n\nMeasured on {found['blame_date']}.\n"
        "A job that presses on one resource is put on a hidden node, or a service gets a CPU limit that is nearly used "
        "up. A case counts where the hidden node's own Shapley values give that cause at least 60 % of what the "
        "service suffers. The record has 10 minutes, and the agent only watches. "
        "The simplest rule blames the neighbour that uses most CPU, through the CPU.\n\n"
        "The first columns take the twin's largest cause, sure or not. "
        "`osml look advise` names a culprit only where it is sure enough.\n\n"
        f"{_table(heads, rows)}\n"
        f"Own limit blamed on a neighbour: {blame['own_limit_blamed_on_neighbour']} cases by the twin, "
        f"{blame['own_limit_blamed_on_neighbour_simple']} by the simplest rule.\n"
        f"For {blame['not_found']} seeds no case was found.\n"
    )
