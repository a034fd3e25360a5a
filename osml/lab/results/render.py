"""Files of figures into pages: `docs/reference/results.md`, and the marked block of README."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from osml.lab.bench.suites.osml_302 import FRESH_MIXES
from osml.lab.results import live_validation, profiles, published_policies
from osml.lab.results.figures import FIGURES

FOLDER = Path("docs/results")
PAGE = Path("docs/reference/results.md")
README = Path("README.md")
_BLOCK = re.compile(r"(<!-- results:begin (\S+) -->\n).*?(<!-- results:end -->)", re.DOTALL)
_INTRO = """# Results

For researchers: all current figures of osml, beside those of the papers.
Each figure comes from one command; `make results` makes all of them again.
The numbers are files in `docs/results/`. Figures of the virtual node are simulated.
The simple baselines are `unmanaged` (no scheduler) and `even` (equal parts for all services).
[The bench](bench.md#definitions) defines the terms.
"""


def kept() -> dict[str, Any]:
    """The documents of `docs/results/`, by name."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))}


def number(value: float | None) -> str:
    """A number as a table shows it: three digits that count."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def _table(document: dict[str, Any]) -> str:
    """The rows; columns for the paper and for the difference only where one has a number."""
    rows: list[dict[str, Any]] = document["rows"]
    columns = [("", "---", [row["of"] for row in rows])]
    columns.append((f"ours, {document['kind']}", "---:", [number(row["ours"]) for row in rows]))
    if any(row["paper"] is not None for row in rows):
        columns.append((document["source"], "---:", [number(row["paper"]) for row in rows]))
    if any(row.get("more") for row in rows):
        columns.append(("minus osml, 95 % interval", "---:", [_difference(row.get("more")) for row in rows]))
    heads, rules, cells = zip(*columns, strict=True)
    return "".join(f"| {' | '.join(line)} |\n" for line in (heads, rules, *zip(*cells, strict=True)))


def _difference(more: Sequence[float] | None) -> str:
    if not more:
        return ""
    value, low, high = (f"{one:+.3g}" for one in more)
    return f"{value} [{low}, {high}]"


def _origin(document: dict[str, Any]) -> str:
    """When and by which command."""
    command = document["command"]
    source = f"`{command}`" if command.startswith(("osml", "python")) else f"figures of {command}"
    return f"Made on {document['date']} with {source}.\n"


def _note(document: dict[str, Any]) -> str:
    """How to read it, with the number of mixes where it is not that of the run."""
    mixes = document.get("mixes")
    return document["note"] if mixes is None else f"{document['note']} There are {mixes} such mixes."


def page(found: dict[str, Any]) -> str:
    """The page of all results."""
    parts = [_INTRO]
    for figure in FIGURES:
        document = found.get(figure.name)
        if document is None:
            continue
        unit = f" ({document['unit']})" if document["unit"] else ""
        parts.append(f"## {document['title']}{unit}\n\n{_note(document)}\n\n{_table(document)}\n{_origin(document)}")
    return "\n".join(parts)


def headline(found: dict[str, Any]) -> str:
    """The figures that README shows."""

    def of(name: str, row: str) -> str:
        return next(number(one["ours"]) for one in found[name]["rows"] if one["of"] == row)

    # A file of an earlier run has no count.
    counted = found["osml-302-cores"].get("mixes")
    those = "only mixes" if counted is None else f"only the {counted} mixes"
    lines = [
        f"| {FRESH_MIXES} mixes, simulated | osml | osml without models | PARTIES | ARQ "
        "| staffing:climb | unmanaged | oracle |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    policies = ("osml", "osml:formula", "parties", "arq", "staffing:climb", "unmanaged", "oracle")
    for text, name in (
        ("mixes that converge (share)", "osml-302-converged"),
        ("targets missed (share)", "osml-302-missed"),
        ("system entropy E_S (lower is better)", "osml-302-entropy"),
        (f"logical CPUs in use, of 36 ({those} on which osml, PARTIES and CLITE all converge)", "osml-302-cores"),
    ):
        lines.append(f"| {text} | " + " | ".join(of(name, policy) for policy in policies) + " |")
    for part in ("alone", "beside a job") if "osml-changes-missed" in found else ():
        missed = [of("osml-changes-missed", f"{part}: {policy}") for policy in policies if policy != "oracle"]
        lines.append(f"| 30 mixes whose loads change, {part}: targets missed (share) | {' | '.join(missed)} | - |")
    return "\n".join(lines) + "\n"


def readme(text: str, found: dict[str, Any]) -> str:
    """README with its marked block made anew."""
    made = {"headline": headline}
    return _BLOCK.sub(lambda match: match[1] + made[match[2]](found) + match[3], text)


def stale() -> list[str]:
    """The pages that are not as the files of figures would make them."""
    found = kept()
    pages = {PAGE: page(found), README: readme(README.read_text("utf-8"), found)}
    for own in (live_validation, profiles, published_policies):
        if own.NAME in found:
            pages[own.PAGE] = own.page(found[own.NAME])
    return [str(path) for path, text in pages.items() if path.read_text("utf-8") != text]


def write() -> None:
    """Write the pages."""
    found = kept()
    PAGE.write_text(page(found), "utf-8")
    README.write_text(readme(README.read_text("utf-8"), found), "utf-8")
    for own in (live_validation, profiles, published_policies):
        if own.NAME in found:
            own.PAGE.write_text(own.page(found[own.NAME]), "utf-8")
    for drawn in (live_validation, profiles):
        if drawn.NAME in found:
            drawn.draw(found[drawn.NAME], drawn.PICTURE)
