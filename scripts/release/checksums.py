"""SHA256SUMS beside the files of a release: `sha256sum -c SHA256SUMS` checks them."""

from __future__ import annotations

import hashlib
from pathlib import Path

NAME = "SHA256SUMS"


def digest_of(file: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def write_sums(folder: Path) -> int:
    """Write the sums of all files of a folder but the sums themselves; returns the number of files."""
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.name != NAME)
    (folder / NAME).write_text("".join(f"{digest_of(file)}  {file.name}\n" for file in files), "utf-8")
    return len(files)
