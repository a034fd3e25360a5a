"""What a check has to say, and where."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

Severity = Literal["error", "warning", "note"]

MOST = 1000
"""Findings of each severity in a report; a data set with more has one fault, many times."""

_LONGEST = {"file": 200, "column": 100, "message": 400}
"""Characters of the texts of a finding, apart from the dots in their middle."""


class Finding(msgspec.Struct, frozen=True):
    """One finding. `file` is relative to the data set; None where it is about more than one place.

    Errors keep a data set from being accepted, warnings say what it is less good for. Texts quote the data, which may
    be anybody's: of long ones the middle is left out.
    """

    severity: Severity
    file: str | None
    row_group: int | None
    column: str | None
    message: str

    def __post_init__(self) -> None:
        for name, most in _LONGEST.items():
            text = getattr(self, name)
            if text is not None and len(text) > most:
                msgspec.structs.force_setattr(self, name, f"{text[: most // 2]} ... {text[len(text) - most // 2 :]}")


class Report(msgspec.Struct):
    """Findings of a data set, and how many of each severity there are, those beyond MOST included."""

    findings: list[Finding] = []
    counts: dict[Severity, int] = {}
    rows: int = 0
    runs: int = 0
    files: int = 0
    bytes: int = 0

    @property
    def accepted(self) -> bool:
        """No error."""
        return not self.counts.get("error")

    @property
    def first_error(self) -> Finding:
        """Of a report that is not accepted."""
        return next(finding for finding in self.findings if finding.severity == "error")

    def add(self, findings: Iterable[Finding]) -> None:
        """Take over findings, up to MOST of each severity."""
        for finding in findings:
            self.counts[finding.severity] = self.counts.get(finding.severity, 0) + 1
            if self.counts[finding.severity] <= MOST:
                self.findings.append(finding)


class Place(msgspec.Struct, frozen=True):
    """Where a check is looking."""

    file: str
    row_group: int | None = None

    def error(self, column: str | None, message: str) -> Finding:
        """Something that is wrong."""
        return Finding("error", self.file, self.row_group, column, message)

    def warning(self, column: str | None, message: str) -> Finding:
        """Something that may be wrong, or makes the data less useful."""
        return Finding("warning", self.file, self.row_group, column, message)

    def note(self, column: str | None, message: str) -> Finding:
        """Something to know."""
        return Finding("note", self.file, self.row_group, column, message)


def document(report: Report) -> dict[str, Any]:
    """The JSON document of a report."""
    return {
        "findings": report.findings,
        "counts": report.counts,
        "rows": report.rows,
        "runs": report.runs,
        "files": report.files,
        "bytes": report.bytes,
        "accepted": report.accepted,
    }
