"""The figures: what each is called, which command makes it, and how its rows are read from the command's document."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from osml.lab.bench.report.statistics import paired
from osml.lab.bench.suites.osml_302 import FRESH_MIXES
from osml.lab.bench.suites.osml_changes import FRESH_PARTS

Rows = list["Row"]
MODELS = Path("models")
TIMED = ("osml", "parties", "clite")


class Row(NamedTuple):
    """One line of a figure: what it is of, our number, and that of the paper (None: no paper has one).

    `more`: by how much it has more than the policy `osml` on the same mixes, with the ends of the 95 % interval.
    """

    of: str
    ours: float | None
    paper: float | None = None
    more: tuple[float, float, float] | None = None


class Figure(NamedTuple):
    """A figure: `step` makes its document (None: it is read from shipped files), `note` says how to read it.

    `mixes`: how many mixes its numbers are means of, where that is not all of the run.
    """

    name: str
    title: str
    unit: str
    step: str | None
    read: Callable[[Any], Rows]
    source: str
    note: str
    kind: Literal["simulated", "computed", "measured"] = "simulated"
    mixes: Callable[[Any], int] | None = None


def _facts(document: Any) -> Rows:
    def share(fitted: bool) -> Row:
        facts = [fact for fact in document["facts"] if fact["fitted"] is fitted]
        name = "fitted facts met" if fitted else "other published facts met"
        return Row(f"{name}, of {len(facts)}", sum(fact["pass"] for fact in facts))

    return [share(True), share(False)]


def _crosscheck(document: Any) -> Rows:
    return [
        Row(
            f"median relative error of the 99th percentile, {len(document['cells'])} cells",
            document["median_rel_error"],
        ),
        Row("worst relative error", document["worst_rel_error"]),
    ]


def _by_policy(document: Any) -> dict[str, list[dict[str, Any]]]:
    """The rows of a bench by policy."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in document:
        found.setdefault(row["policy"], []).append(row)
    return found


def _more(document: Any, column: str) -> dict[str, tuple[float, float, float]]:
    """By policy: the mean difference from `osml` over the same mixes, and its interval."""
    by_mix = {
        policy: {(int(row["case"]), int(row["seed"])): float(row[column]) for row in rows}
        for policy, rows in _by_policy(document).items()
    }
    ours = by_mix.pop("osml", {})
    found = {policy: paired(theirs, ours) for policy, theirs in by_mix.items()}
    return {policy: (one.value, one.low, one.high) for policy, one in found.items() if one.n}


def _share(rows: list[dict[str, Any]], key: str) -> float:
    return sum(bool(row[key]) for row in rows) / len(rows)


def _converged(document: Any) -> Rows:
    paper = {"osml": 285 / 302, "parties": 260 / 302, "clite": 148 / 302}
    more = _more(document, "converged")
    return [
        Row(policy, _share(rows, "converged"), paper.get(policy), more.get(policy))
        for policy, rows in _by_policy(document).items()
    ]


def _converged_feasible(document: Any) -> Rows:
    feasible = {name: [row for row in rows if row["feasible_oracle"]] for name, rows in _by_policy(document).items()}
    return [Row(f"{policy}, {len(rows)} mixes", _share(rows, "converged")) for policy, rows in feasible.items()]


def _mean(column: str) -> Callable[[Any], Rows]:
    """A column over all mixes."""

    def read(document: Any) -> Rows:
        more = _more(document, column)
        return [
            Row(policy, statistics.fmean(row[column] for row in rows), None, more.get(policy))
            for policy, rows in _by_policy(document).items()
        ]

    return read


def _by_part(column: str) -> Callable[[Any], Rows]:
    """A column part by part."""

    def read(document: Any) -> Rows:
        parts: dict[str, list[Any]] = {}
        for row in document:
            parts.setdefault(row["part"].removeprefix(FRESH_PARTS), []).append(row)
        return [
            row._replace(of=f"{part.replace('-', ' ')}: {row.of}")
            for part, rows in parts.items()
            for row in _mean(column)(rows)
        ]

    return read


def _missed_after(document: Any) -> Rows:
    found: Rows = []
    for policy, rows in _by_policy(document).items():
        shares = [row["target_missed_after"] for row in rows if row["feasible_oracle"]]
        known = [share for share in shares if share is not None]
        found.append(Row(f"{policy}, {len(known)} mixes", statistics.fmean(known) if known else None))
    return found


def _all_converge(document: Any) -> set[int]:
    """The mixes on which all policies of the paper's comparison converge."""
    mixes = _by_policy(document)
    converged = [{int(row["case"]) for row in mixes[one] if row["converged"]} for one in TIMED]
    return converged[0].intersection(*converged[1:])


def _common_mixes(document: Any) -> int:
    return len(_all_converge(document))


def _common(column: str, paper: dict[str, float]) -> Callable[[Any], Rows]:
    """A column over the mixes on which all policies of the paper's comparison converge."""

    def read(document: Any) -> Rows:
        common = _all_converge(document)
        found: Rows = []
        for policy, rows in _by_policy(document).items():
            values = [row[column] for row in rows if row["case"] in common]
            found.append(Row(policy, statistics.fmean(values) if values else None, paper.get(policy)))
        return found

    return read


def _fluctuating(document: Any) -> Rows:
    paper = {"arq": 59.0, "parties": 105.0}
    found: Rows = []
    for policy, parts in document["policies"].items():
        missed = parts["figure-17"]["missed_share"]["value"]
        found.append(Row(policy, 500 * missed, paper.get(policy)))
    return found


def _equivalence(document: Any) -> Rows:
    return [Row(one["text"], one["ours"], one["published"]) for one in document["published"] if one["ours"] is not None]


def _accuracy(document: Any) -> Rows:
    return [
        Row(f"{row['service']}, {row['method']} profile", row["accuracy_pct"], row["published_pct"])
        for row in document["rows"]
        if row["label"].startswith("7: ")
    ]


def _assurance(document: Any) -> Rows:
    names = sorted({row["policy"] for row in document["rows"]})
    return [
        Row(
            f"{name}: least share of intervals within the target",
            min(row["slo_pct"] for row in document["rows"] if row["policy"] == name),
        )
        for name in names
    ]


def _model_errors(_document: Any) -> Rows:
    found: Rows = []
    for name in ("a-masked-e5-2697v4", "a2-masked-e5-2697v4"):
        metadata = json.loads((MODELS / name / "metadata.json").read_bytes())
        for row in metadata["metrics"]["rows"]:
            if row["output"] in ("rcliff", "oaa") and row["split"] in ("seen", "unseen"):
                of = f"{name}, {row['output']}, {row['split']} services"
                found += [
                    Row(f"{of}: cores", row["core_mae"], row.get("published_core")),
                    Row(f"{of}: ways", row["way_mae"], row.get("published_way")),
                ]
    return found


def _dispatch(paper: float, what: str) -> Callable[[Any], Rows]:
    return lambda document: [Row(what, document["improvement_pct"], paper)]


def _decision(document: Any) -> Rows:
    return [Row("CPU time of one decision of the policy osml, median", document["median"])]


def _agent(document: Any) -> Rows:
    return [
        Row("memory of the agent, MiB", document["agent"]["rss_mib"]),
        Row("CPU of the agent, percent of one core", document["agent"]["cpu_pct"]),
    ]


def _demo(document: Any) -> Rows:
    phases = document["phases"]
    return [
        Row("E_S unmanaged", phases["unmanaged"]["e_s"]),
        Row("E_S under the policy osml", phases["managed"]["e_s"]),
        Row("seconds until all targets are met", document["convergence_s"]),
        Row("actions", document["actions"]),
    ]


OSML_62 = "OSML section 6.2"
FIGURES = (
    Figure("virtual-node-facts", "Published facts that the virtual node meets", "facts", "facts", _facts,
           "eight papers and data sheets",
           "The fit does not read the other facts. The developers looked at them, so they are no blind test."),
    Figure("virtual-node-crosscheck", "Queueing equations against an event simulation", "relative error",
           "crosscheck", _crosscheck, "an independent method", "Both sides are simulated."),
    Figure("osml-302-converged", "Mixes that converge", f"share of {FRESH_MIXES} mixes", "mixes", _converged, OSML_62,
           "Drawn as the paper's 302 are, but others: no rule of `osml` was chosen with them. "
           "`oracle` shows that not all are feasible. "
           "`unmanaged`, `even` and `staffing:climb` are simple baselines."),
    Figure("osml-302-converged-feasible", "Feasible mixes that converge", "share", "mixes", _converged_feasible,
           "no paper", "A mix is feasible where the oracle finds a partition that meets all targets."),
    Figure("osml-302-entropy", "System entropy E_S", f"E_S, 0 to 1, mean of {FRESH_MIXES} mixes", "mixes", _mean("e_s"),
           "no paper", "Lower is better."),
    Figure("osml-302-missed", "Missed targets", f"share of intervals and services, mean of {FRESH_MIXES} mixes",
           "mixes", _mean("target_missed_share"), "no paper",
           "Any amount over the target counts; infeasible mixes and the start, too."),
    Figure("osml-302-missed-after", "Missed targets after convergence", "share of intervals and services", "mixes",
           _missed_after, "no paper",
           "Feasible mixes that converged: 30 s without a miss. What follows counts. Each policy has its own mixes."),
    Figure("osml-302-cores", "Logical CPUs in use", "logical CPUs of 36", "mixes",
           _common("cores_used", {"osml": 34.0, "parties": 36.0, "clite": 36.0}), OSML_62,
           "Mean of the mixes on which osml, parties and clite all converge. Other policies may miss targets on them.",
           mixes=_common_mixes),
    Figure("osml-302-ways", "Cache ways in use", "ways of 20", "mixes",
           _common("ways_used", {"osml": 16.0, "parties": 20.0, "clite": 20.0}), OSML_62, "The same mixes.",
           mixes=_common_mixes),
    Figure("osml-changes-missed", "Missed targets where loads change", "share of intervals and services",
           "changes", _by_part("target_missed_share"), "no paper",
           "Loads change by steps, ramps and bursts. Any amount over the target counts, infeasible moments too. "
           "30 mixes each: alone, beside a job, and on five other machines, half of these beside a job. `osml` has "
           "models of its own for two of the five, and its formula decides on two. No rule of `osml` was chosen with "
           "these mixes."),
    Figure("osml-changes-entropy", "System entropy E_S where loads change", "E_S, 0 to 1", "changes",
           _by_part("e_s"), "no paper", "The same runs. Lower is better."),
    Figure("osml-changes-cores", "Logical CPUs in use where loads change", "logical CPUs", "changes",
           _by_part("cores_used"), "no paper", "The same runs, those that miss targets too."),
    Figure("ahq-fluctuating-missed", "Missed intervals under a fluctuating load", "intervals of 500", "fluctuating",
           _fluctuating, "Ah-Q figure 17", "Mean of three seeds; `lc_first` is the simple baseline."),
    Figure("ahq-equivalence", "Cores that one policy saves at equal E_S", "cores or E_S", "equivalence", _equivalence,
           "Ah-Q section VII", "Interpolated on a grid of smaller nodes. A row is left out where the E_S of a policy "
           "stays below it on the whole grid, as ARQ's does."),
    Figure("ombm-accuracy", "Accuracy of predicted latency", "percent", "ombm", _accuracy, "OMBM figure 7",
           "The paper has only the classic profile."),
    Figure("ombm-assurance", "Latency targets under OMBM", "percent of intervals", "assurance", _assurance,
           "no paper", "OMBM section V says up to 99 percent: its best case. Ours is the worst case."),
    Figure("model-a-error", "Error of the models A and A'", "mean absolute error", None, _model_errors,
           "OSML table 5", "On held-out runs of the virtual node, for the platform e5-2697v4."),
    Figure("dispatch-improvement", "Gain of the optimal dispatch over a non-idling one, arrival rate 5", "percent",
           "dispatch", _dispatch(6.0, "mean number in system"), "dispatch paper, figure 4",
           "An exact solution.", kind="computed"),
    Figure("dispatch-improvement-often", "The same with frequent interference", "percent", "dispatch-often",
           _dispatch(14.0, "mean number in system"), "dispatch paper, figure 6", "An exact solution.", kind="computed"),
    Figure("decision-time", "Time of a decision", "microseconds of CPU time", "decision", _decision, "no paper",
           "It depends on the machine.", kind="measured"),
    Figure("agent-cost", "Cost of the agent on a node", "", "demo", _agent, "no paper",
           "During `make demo`; it depends on the machine.", kind="measured"),
    Figure("demo", "The demonstration", "", "demo", _demo, "no paper", "One run of `make demo`."),
)  # fmt: skip
