"""The card of a model: what it answers, from what, how well, and where not to trust it."""

from __future__ import annotations

from typing import Any

from osml.predictors import ANY_PLATFORM, ModelMetadata
from osml_training.collect.variants import is_variant
from osml_training.export.commit import short

_WHAT = {
    "a": "RCliff, OAA and the bandwidth of the OAA of a service that is alone on the node (OSML's Model-A)",
    "a2": "RCliff, OAA and the bandwidth of the OAA of a service among others (OSML's Model-A')",
    "b": "the cores and ways that can be taken from a service at a tolerated slowdown, in three directions (OSML's "
    "Model-B)",
    "b2": "by how much the latency of a service suffers when it is left with fewer cores and ways (OSML's Model-B')",
}


def markdown_table(rows: list[list[str]]) -> str:
    """A table of Markdown; the first row is its head."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: Any) -> str:
    """Three digits, or a dash."""
    return "-" if value is None else f"{value:.3g}"


def _errors(metadata: ModelMetadata) -> str:
    rows = metadata.metrics.get("rows", [])
    if not rows:
        return "Not evaluated."
    lines = [["output", "hold-out", "cores", "ways", "paper: cores", "paper: ways", "off the cliff"]]
    lines += [
        [
            row["output"],
            row["split"],
            number(row["core_mae"]),
            number(row["way_mae"]),
            number(row["published_core"]),
            number(row["published_way"]),
            number(row["off_cliff_share"]),
        ]
        for row in rows
    ]
    return markdown_table(lines)


def _platform(m: ModelMetadata) -> str:
    if m.platform != ANY_PLATFORM:
        return ", ".join(m.platforms)
    made_up = sum(is_variant(name) for name in m.platforms)
    real = ", ".join(name for name in m.platforms if not is_variant(name))
    return f"{m.platform} that has no model of its own; learned from {real or 'none of the catalog'}" + (
        f" and {made_up} made-up machines" if made_up else ""
    )


def _limit(m: ModelMetadata) -> str:
    if m.platform != ANY_PLATFORM:
        return "It knows the platform above; for another one it has to be transferred (`osml learn train transfer`)."
    return (
        "It answers for machines that it has never seen, within the ranges above. There the margins to use are those "
        "for unseen services, for all services; the errors above are of a machine that it knows."
    )


def card(metadata: ModelMetadata) -> str:
    """`card.md`."""
    m = metadata
    inputs = markdown_table(
        [["input", "unit", "trained from", "to"]]
        + [[f.name, f.unit or "-", number(f.low), number(f.high)] for f in m.features]
    )
    outputs = markdown_table(
        [["output", "unit", "90 % within", "95 % within"]]
        + [
            [o.name, o.unit or "-", *(f"{m.margins[c].two_sided[k]:.2f} x spread" for c in ("0.9", "0.95"))]
            for k, o in enumerate(m.outputs)
        ]
    )
    coverage = m.metrics.get("coverage", {})
    told = ", ".join(f"{float(k):.0%}: {v:.1%}" for k, v in coverage.items()) or "not measured"
    strange = ", ".join(f"{float(k):.0%}: {v:.1%}" for k, v in m.metrics.get("coverage_unseen", {}).items())
    strange = f" Unseen ones, within the wider margins for them: {strange}." if strange else ""
    missing = (
        "Every input may be missing (NaN); the margins grow where it matters."
        if m.variant == "masked"
        else "No input may be missing."
    )
    variants = m.metrics.get("variants")
    varied = f"; and {variants} variants of them, programs with other demands" if variants else ""
    again = m.metrics.get("calibrated")
    by = f"by `{again['command']}` (commit `{short(again['commit'])}`)" if again else ""
    anew = f"\n\nThe margins for unseen ones were made after the training, {by}." if again else ""
    told_of = f"- transferred from `{m.parent}` (first hidden layer kept); see its card for what it learned from\n"
    parent = told_of if m.parent else ""
    made = "simulated traces of the virtual node, not a real machine" if m.simulated else "traces of real machines"
    real = (
        "Its errors on real machines are not known: the virtual node is made of equations."
        if m.simulated
        else "Only the machines named above were measured."
    )
    if m.parent and not m.simulated:
        real += f" What these traces do not show, it has from `{m.parent}`."
    return f"""---
library_name: onnx
license: {m.licence.lower()}
tags: [osml, {m.kind}, {m.variant}]
---
# {m.name} {m.version}

Answers {_WHAT[m.kind]}. Trained on **{made}**.

- platform: {_platform(m)}
- variant: {m.variant}
- services in training: {", ".join(m.services)}{varied}
- dataset: sha256 `{m.dataset_fingerprint[:16]}...`
- commit `{short(m.commit)}`, seed {m.seed}
{parent}
Made by

```
{m.command}
```

## Errors on runs that were held out

Mean absolute errors in logical CPUs and ways (B': percent points in the column of cores). `seen`: other loads of
services in training; `unseen`: services that were not. Beside them what OSML's table 5 says of its own models on a real
machine. "Off the cliff": share of answers that, rounded, would miss the latency target.

{_errors(m)}

Share of held-out truth within the margins, seen services: {told}.{strange}{anew}

## Inputs

{missing} Outside of the ranges the answers are extrapolation.

{inputs}

## Outputs

`points` and `spread`, each a column an output, in raw units.

{outputs}

## Limits

- {_limit(m)}
- {real}
- At the load where the whole machine is just enough, the labels are noise and so are the answers.
- It says where an allocation should be, not that it is safe there: a scheduler has to watch the latency.
"""
