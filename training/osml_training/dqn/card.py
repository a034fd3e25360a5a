"""The card of a Model-C: what it chooses, how it was taught, how often it falls, where not to trust it."""

from __future__ import annotations

from typing import Any

from osml.predictors import ModelMetadata
from osml_training.export.card import markdown_table, number
from osml_training.export.commit import short


def _rows(metadata: ModelMetadata) -> str:
    rows: list[dict[str, Any]] = metadata.metrics.get("rows", [])
    if not rows:
        return "Not evaluated."
    head = [
        "policy",
        "hold-out",
        "target met after",
        "possible",
        "falls in 10,000",
        "at OAA",
        "steps",
        "ends met",
        "cores over OAA",
        "ways over OAA",
    ]
    return markdown_table(
        [head]
        + [
            [
                row["policy"],
                row["split"],
                f"{row['met']:.2%}",
                f"{row['could']:.2%}",
                number(row["crossings"]),
                f"{row['arrived']:.0%}",
                number(row["steps"]),
                f"{row['ended_met']:.1%}",
                f"{row['cores']:+.1f}",
                f"{row['ways']:+.1f}",
            ]
            for row in rows
        ]
    )


def _kept(metadata: ModelMetadata) -> str:
    """Who was kept of several networks; nothing where there was one."""
    earned: dict[str, float] = metadata.metrics.get("learning", {}).get("earned_by_seed", {})
    if len(earned) < 2:
        return ""
    best = max(earned, key=lambda seed: earned[seed])
    others = ", ".join(f"{value:.4f} (seed {seed})" for seed, value in earned.items() if seed != best)
    return (
        f"\n- kept of {len(earned)} networks: the one of seed {best}, whose discounted reward from a random cell of "
        f"the validation runs is {earned[best]:.4f}; the others: {others}"
    )


def _learned_from(metadata: ModelMetadata) -> str:
    """Where its values come from."""
    first = (
        "simulated traces of the virtual node, not a real machine" if metadata.simulated else "traces of real machines"
    )
    online: dict[str, Any] | None = metadata.metrics.get("online")
    if online is None:
        return f"Trained on **{first}**."
    offline = f" and {online['offline_tuples']:,} of a file of transitions" if online.get("offline_tuples") else ""
    return (
        f"It goes on from `{metadata.parent}`, whose line began with **{first}**. It then learned from\n"
        f"**{online['learned_tuples']:,} tuples of experiences** that agents reported{offline}."
    )


_COMPARED = (
    ("held_out", "squared_error_falls_by", "squared error of Q on held-out experiences falls by"),
    ("held_out", "repeated_falls", "decisions repeated after which a target was missed, share more"),
    ("held_out", "neglect", "taking from services below target, share more"),
    ("virtual_node", "e_s_rises_by", "E_S on the virtual node (simulated) rises by"),
    ("virtual_node", "e_s_rises_since_first_by", "the same since the first champion"),
    ("virtual_node", "falls", "falls for an episode there, more"),
)


def _judged(metadata: ModelMetadata, online: dict[str, Any]) -> str:
    """How a model that learned online was judged."""

    def told(found: dict[str, Any]) -> str:
        if found["value"] is None:
            return "nothing to compare"
        return "{value:.4g} [{low:.4g}, {high:.4g}]".format(**found)

    rows = [[words, told(online[part][key])] for part, key, words in _COMPARED]
    verdict = "It took the place of the champion" if online["promoted"] else "It did not take the place of the champion"
    return (
        f"## Against the champion\n\nCompared with `{metadata.parent}` in pairs, with 95 % intervals. The held-out "
        f"experiences are {online['held_out']['tuples']:,} tuples.\n\n"
        f"{markdown_table([['what', 'candidate less champion'], *rows])}\n\n{verdict}: {'; '.join(online['reasons'])}."
    )


_HELD_OUT = """## On runs that were held out

The legal action of the highest value, on surfaces without noise where they are simulated. `seen`: other loads of
services in training; `unseen`: services that were not. "Target met after" is over all statuses, "possible" what the
best action could do there; a fall is an action that takes something from a service within its target and puts it
beyond. "At OAA": walks from random cells that come within 2 cores and 2 ways of the optimal allocation area and meet
the target, in how many steps; the walk ends after 30. "straight to OAA" knows the surface: a bound, not a policy.
"margin 0.01": nothing is done that is not worth so much more than nothing. "PMU, LLC hidden": as on a cloud machine.

"""


def card(metadata: ModelMetadata) -> str:
    """`card.md`."""
    m = metadata
    variants = m.metrics.get("learning", {}).get("variants")
    varied = f"; and {variants} variants of them, programs with other demands" if variants else ""
    inputs = markdown_table(
        [["input", "unit", "trained from", "to"]]
        + [[f.name, f.unit or "-", number(f.low), number(f.high)] for f in m.features]
    )
    reward: dict[str, Any] = m.training.get("reward", {})
    told = ", ".join(f"{key} {value}" for key, value in reward.items())
    online: dict[str, Any] | None = m.metrics.get("online")
    evaluated = _HELD_OUT + _rows(m) if online is None else _judged(m, online)
    real = (
        "Its experiences are of real machines as far as the nodes that reported them are."
        if online is not None
        else "What it does on a real machine is not known: the virtual node is made of equations."
        if m.simulated
        else "Only the machines named above were measured."
    )
    missing = "Every input may be missing (NaN)." if m.features[0].may_be_missing else "No input may be missing."
    return f"""---
library_name: onnx
license: {m.licence.lower()}
tags: [osml, c, {m.variant}]
---
# {m.name} {m.version}

The value of each of the 49 actions <cores, ways>, from -3 to 3 each, that a service can be given next (OSML's Model-C).
{_learned_from(m)}

- platform: {", ".join(m.platforms)}
- variant: {m.variant}; reward: {told}; gamma {m.training.get("gamma")}
- services in training: {", ".join(m.services)}{varied}
- dataset: sha256 `{m.dataset_fingerprint[:16]}...`
- commit `{short(m.commit)}`, seed {m.seed}{_kept(m)}

Made by

```
{m.command}
```

{evaluated}

## Inputs

{missing} Outside of the ranges the answers are extrapolation.

{inputs}

## Output

`q`: a column for each action, `<-3,-3>` first, `<3,3>` last, in the order of the cores. Illegal actions have a value,
too: mask them.

## Limits

- It knows the platform above, and one service at a time: what its neighbours lose by an action is not in its value.
- {real}
- It may step off the cliff (the table says how often): a scheduler has to shield its steps down, and to take back what
  hurt.
- It was taught on settled states; right after a change, while queues drain, what it sees is not what it was taught on.
"""
