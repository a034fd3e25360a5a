"""Checks one contributed package in a process of its own, with little memory and time: `python -m` ... TAR FOLDER.

It reads JSON and Parquet, nothing that could be code. The result is one JSON document on standard output.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

import msgspec

from osml.base.failure import Failure

MEMORY = 4 * 2**30  # of address space, most of it unused
CPU_S = 900
MOST = 100  # findings that a record keeps, so that a thousand records are not gigabytes


def check(package: Path, folder: Path) -> dict[str, Any]:
    """`{"accepted", "rows", "runs", "files", "bytes", "findings"}`, as `osml learn data validate` says it.

    Of the findings the first ones, errors before others; `counts` says how many of each severity there are. An accepted
    package also has its `content`.
    """
    from osml.datasets.checks.finding import Finding, document  # noqa: PLC0415 - not where pyarrow is not installed
    from osml.datasets.contribute import unpack_check  # noqa: PLC0415
    from osml.datasets.package import content_of, unpack  # noqa: PLC0415
    from osml.datasets.validate import validate  # noqa: PLC0415

    try:
        unpack(package, folder)
        unpack_check(package)
        report = validate(folder, made_here=False)
        first = sorted(report.findings, key=lambda finding: finding.severity != "error")[:MOST]
        found = document(report) | {"findings": first}
        return found | ({"content": content_of(folder)} if found["accepted"] else {})
    except Failure as failure:
        message = str(failure).replace(f"{package}: ", "").replace(f"{folder}/", "")
        finding = Finding("error", None, None, None, message)
        none = {"rows": 0, "runs": 0, "files": 0, "bytes": 0}
        return none | {"accepted": False, "findings": [finding], "counts": {"error": 1}}


def main() -> None:
    """Limit this process, then check."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    package, folder = Path(sys.argv[1]), Path(sys.argv[2])
    sys.stdout.buffer.write(msgspec.json.encode(check(package, folder)))


if __name__ == "__main__":
    main()
