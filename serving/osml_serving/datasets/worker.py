"""Checks one contributed package in a process of its own, with little memory and time: `python -m` ... TAR FOLDER.

It reads JSON and Parquet, nothing that could be code. The result is one JSON document on standard output.
"""

from __future__ import annotations

import re
import resource
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

import msgspec

from osml.base.failure import Failure, InputError

MEMORY = 4 * 2**30  # of address space, most of it unused
CPU_S = 900
MAX_FILES = 10_000
EXPECTED = "expected a package of `osml learn data contribute`"
PART = r"[A-Za-z0-9_][A-Za-z0-9_.=-]{0,127}"
NAME = re.compile(
    rf"(dataset\.json|README\.md|checksums\.sha256|croissant\.json|(traces|labels[a-z-]*)/{PART}/{PART}/{PART}\.parquet)\Z"
)


def unpack(package: Path, folder: Path) -> None:
    """Write the files of a package into an empty folder. InputError for anything but plain files with plain names.

    All members together are no longer than the package: so none is sparse, and nothing grows.
    """
    left = package.stat().st_size
    seen: set[str] = set()
    try:
        with tarfile.open(package, "r:") as archive:
            for member in archive:
                left -= member.size
                if not member.isreg() or member.sparse is not None or not NAME.match(member.name):
                    raise InputError(f"'{member.name[:200]}' is not a regular file of a data set, {EXPECTED}")
                if left < 0 or len(seen) >= MAX_FILES or member.name in seen:
                    raise InputError(f"'{member.name[:200]}' is a duplicate, too long, or beyond {MAX_FILES} files")
                seen.add(member.name)
                target = folder / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                content = archive.extractfile(member)
                if content is None:
                    raise InputError(f"'{member.name[:200]}' is empty, {EXPECTED}")
                with content, target.open("xb") as file:  # owner, mode and time of the package are ignored
                    shutil.copyfileobj(content, file)
    except (tarfile.TarError, EOFError, UnicodeError) as error:
        raise InputError(f"the package is not a valid tar file ({error})") from None
    if "dataset.json" not in seen:
        raise InputError(f"the package has no dataset.json, {EXPECTED}")


def check(package: Path, folder: Path) -> dict[str, Any]:
    """`{"accepted", "rows", "runs", "files", "bytes", "findings"}`, as `osml learn data validate` says it."""
    from osml.datasets.checks.finding import document  # noqa: PLC0415 - not where pyarrow is not installed
    from osml.datasets.contribute import unpack_check  # noqa: PLC0415
    from osml.datasets.validate import validate  # noqa: PLC0415

    try:
        unpack(package, folder)
        unpack_check(package)
        return document(validate(folder))
    except Failure as failure:
        message = str(failure).replace(f"{package}: ", "").replace(f"{folder}/", "")
        finding = {"severity": "error", "file": None, "row_group": None, "column": None, "message": message}
        return {"accepted": False, "rows": 0, "runs": 0, "files": 0, "bytes": 0, "findings": [finding]}


def main() -> None:
    """Limit this process, then check."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    package, folder = Path(sys.argv[1]), Path(sys.argv[2])
    sys.stdout.buffer.write(msgspec.json.encode(check(package, folder)))


if __name__ == "__main__":
    main()
