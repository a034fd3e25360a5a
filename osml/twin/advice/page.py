"""The page of `osml look advise --html`: one file without scripts, whose first screen answers the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from osml.base.brief_number import brief

_STYLE = """
:root { color-scheme: light dark; --ink: #16202b; --paper: #fff; --soft: #5b6875; --line: #d8dee4; --bad: #b3261e;
  --good: #1b6e3c; --bar: #3b6fb6; --card: #f5f7f9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #11161c; --soft: #9aa7b4; --line: #30363d;
  --bad: #ff8a80; --good: #7fd39b; --bar: #79a8e8; --card: #1a2129; } }
body { font: 16px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 60rem; padding: 1rem; }
h1 { font-size: 1.1rem; margin: 0; color: var(--soft); font-weight: 600; }
.answer { font-size: 1.5rem; font-weight: 700; margin: .2rem 0 .6rem; }
.yes { color: var(--bad); } .no { color: var(--good); }
section { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .7rem 1rem;
  margin: .8rem 0; }
h2 { font-size: 1.15rem; margin: 0 0 .3rem; }
p, ul { margin: .3rem 0; } .soft { color: var(--soft); font-size: .9rem; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; }
th, td { text-align: left; padding: .2rem .5rem .2rem 0; border-top: 1px solid var(--line); }
td.n { white-space: nowrap; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.bar { background: var(--bar); height: .6rem; border-radius: .2rem; min-width: 2px; }
.two { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; }
@media (max-width: 45rem) { .two { grid-template-columns: 1fr; } }
"""

_MOST = 6


def page(document: Mapping[str, Any]) -> str:
    """The page of a document of `osml look advise`."""
    needed = document["needs_partitioning"]
    kind = {True: "yes", False: "no", None: ""}[needed]
    watched = "the agent only watched" if document["watched"] else "decisions were applied"
    parts = [
        f"<h1>{escape(document['node'])} on {escape(document['platform'])}: does it need partitioning?</h1>",
        f'<p class="answer {kind}">{escape(document["verdict"])}</p>',
        "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in document["answer"]) + "</ul>",
        f'<p class="soft">{document["intervals"]:,} intervals, {watched}. What was not measured is predicted by a twin '
        "of this machine: it is simulated.</p>",
        *[_service(one) for one in document["services"]],
        "<section><h2>What the record can't tell</h2><ul>"
        + "".join(f"<li>{escape(text)}</li>" for text in document["unknown"])
        + "</ul></section>",
    ]
    title = f"Advice for {escape(document['node'])}"
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    body = "".join(parts)
    return f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{body}</body></html>\n'


def _service(one: Mapping[str, Any]) -> str:
    target = f"{one['percentile']} {brief(one['measured_ms'])} ms"
    target += ", no target" if one["target_ms"] is None else f", target {brief(one['target_ms'])} ms"
    missed = "" if one["missed_share"] is None else f", missed in {one['missed_share']:.1%} of the intervals"
    return (
        f"<section><h2>{escape(one['name'])}: {target}{missed}</h2>"
        f"<p>Alone it would take {brief(one['alone_ms'])} ms. It suffers {brief(one['suffers_ms'])} ms.</p>"
        f'<div class="two"><div>{_causes(one["from"], one["suffers_ms"])}</div>'
        f"<div>{_levers(one['levers'])}</div></div></section>"
    )


def _causes(causes: Sequence[Mapping[str, Any]], suffers: float) -> str:
    rows = "".join(
        f"<tr><td>{escape(str(one['culprit'] or 'not known'))}</td><td>{escape(one['resource'])}</td>"
        f'<td class="n">{brief(one["ms"])}</td><td class="n">{_confidence(one["confidence"])}</td>'
        f'<td style="width:25%"><div class="bar" style="width:{_percent(one["ms"], suffers)}%"></div></td></tr>'
        for one in causes[:_MOST]
    )
    if not rows:
        return "<p>It hardly suffers from anybody.</p>"
    return (
        '<table><tr><th>from</th><th>through</th><th class="n">ms</th><th class="n">confidence</th><th></th></tr>'
        f"{rows}</table>"
    )


def _confidence(value: float | None) -> str:
    return "not known" if value is None else f"{value:.0%}"


def _percent(ms: float, suffers: float) -> int:
    return max(0, min(100, round(100.0 * ms / suffers))) if suffers > 0 else 0


def _levers(levers: Sequence[Mapping[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td>{escape(one['lever'])}{'' if one['available'] else ' (not on this machine)'}</td>"
        f'<td class="n">{brief(one["gain"])}</td><td class="n">{brief(one["low"])} to {brief(one["high"])}</td>'
        f'<td class="n">{_speed(one["jobs_speed"])}</td></tr>'
        for one in levers[:_MOST]
    )
    return (
        '<table><tr><th>lever</th><th class="n">ms less</th><th class="n">90 % bounds</th><th class="n">jobs</th></tr>'
        f"{rows}</table>"
    )


def _speed(value: float | None) -> str:
    return "" if value is None else f"{value - 1.0:+.0%}"
