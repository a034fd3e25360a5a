"""A report as sections of text, tables and pictures; written as Markdown and as one HTML page."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #1c2024; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid #d6dade; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #e4e7ea; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { background: #f4f6f8; font-weight: 600; }
caption { text-align: left; color: #55606a; padding: .3rem 0; } img { max-width: 100%; height: auto; }
.wide { overflow-x: auto; }
.note { color: #55606a; } @media (prefers-color-scheme: dark) { body { background: #14171a; color: #e4e7ea; }
th { background: #20262b; } th, td, h2 { border-color: #333b42; } img { background: #fff; } }
"""


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column names the row."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True)
class Picture:
    """A PNG beside the report; `draw` writes it to the path that it is given."""

    name: str
    caption: str
    draw: Callable[[Path], None]


@dataclass(frozen=True)
class Section:
    """One heading with paragraphs, then tables, then pictures."""

    title: str
    text: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = field(default=())


def markdown(title: str, sections: Sequence[Section]) -> str:
    """The report as Markdown."""
    lines = [f"# {title}", ""]
    for section in sections:
        lines += [f"## {section.title}", ""]
        for paragraph in section.text:
            lines += [paragraph, ""]
        for table in section.tables:
            lines += [f"*{table.caption}*", ""] if table.caption else []
            lines += ["| " + " | ".join(_cell(heading) for heading in table.headings) + " |"]
            lines += ["|" + "|".join(["---", *["---:"] * (len(table.headings) - 1)]) + "|"]
            lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in table.rows] + [""]
        for picture in section.pictures:
            lines += [f"![{_cell(picture.caption)}]({picture.name})", ""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def page(title: str, sections: Sequence[Section]) -> str:
    """The report as one HTML page; pictures lie beside it."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<meta name='viewport' content='width=device-width'><title>{html.escape(title)}</title>",
        f"<style>{_STYLE}</style></head><body><h1>{html.escape(title)}</h1>",
    ]
    for section in sections:
        parts.append(f"<section><h2>{html.escape(section.title)}</h2>")
        parts += [f"<p>{html.escape(paragraph)}</p>" for paragraph in section.text]
        for table in section.tables:
            parts.append("<div class='wide'><table>")
            parts += [f"<caption>{html.escape(table.caption)}</caption>"] if table.caption else []
            parts.append("<tr>" + "".join(f"<th>{html.escape(text)}</th>" for text in table.headings) + "</tr>")
            parts += ["<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in table.rows]
            parts.append("</table></div>")
        for picture in section.pictures:
            caption = html.escape(picture.caption)
            parts.append(
                f"<figure><img src='{html.escape(picture.name)}' alt='{caption}'><figcaption class='note'>{caption}"
                "</figcaption></figure>"
            )
        parts.append("</section>")
    return "\n".join([*parts, "</body></html>", ""])
