"""The card of a Model-C': what it answers, what it learned from, how well it does on nodes that were held out."""

from __future__ import annotations

from osml.predictors import ModelMetadata
from osml_training.export.card import markdown_table
from osml_training.export.commit import short
from osml_training.outlook.collect import LEARNED


def card(metadata: ModelMetadata) -> str:
    """`card.md`."""
    m, rows = metadata, metadata.metrics["cells"]
    errors = markdown_table(
        [["cells", "by", "rows", "mean absolute error", "bias", "misses found", "false alarms"]]
        + [
            [
                row["cells"], row["by"], f"{row['rows']:,}", f"{row['mae']:.3f}", f"{row['bias']:+.3f}",
                *("-" if row[key] is None else f"{row[key]:.1%}" for key in ("found", "false")),
            ]
            for row in rows
        ]
    )  # fmt: skip
    covered, missed = (_shares(m.metrics[key]) for key in ("coverage_upper", "missed_of_safe"))
    conditions = ", ".join(f"{name} ({weight})" for name, weight in LEARNED.items())
    return f"""---
library_name: onnx
license: {m.licence.lower()}
tags: [osml, c2, {m.variant}]
---
# {m.name} {m.version}

Answers log(latency over target) that a service would have, settled, with other cores or ways, less a prior (osml's
Model-C'). The policy `osml` gives more before a target is missed, and takes what is not needed. **Simulated**: it
learned from the equations of the virtual node.

- machines: {len(m.platforms)}, so it answers for any
- services in training: {", ".join(m.services)}
- nodes were drawn under these conditions (weight): {conditions}
- data: sha256 `{m.dataset_fingerprint[:16]}...`
- commit `{short(m.commit)}`, seed {m.seed}

Made by

```
{m.command}
```

## Errors on {m.metrics["nodes"]} nodes that were held out

Errors are of the natural logarithm, in cells within a factor of 2.7 of the target. `prior` is the simplest rule: what
the service has shown, moved by the formula of a queue. "Misses found": of the cells that miss, the share whose median
says so. "False alarms": of the others.

{errors}

Share of held-out truth below the bounds, in cells whose median is within a factor of 1.65 of the target: {covered}.
Of all held-out cells whose bound is below the target these miss it: {missed}.

## Inputs

{", ".join(f"`{feature.name}`" for feature in m.features)}. Each may be missing (NaN). `osml/predictors/outlook.py`
explains them.
"""


def _shares(by_coverage: dict[str, float | None]) -> str:
    """Shares by the coverage of the bound, in words."""
    return ", ".join(
        f"{float(key):.0%}: {'none measured' if share is None else f'{share:.1%}'}"
        for key, share in by_coverage.items()
    )
