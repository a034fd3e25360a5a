"""`--plot`: what is checked of it before the work begins."""

from __future__ import annotations

from pathlib import Path

from osml.base.failure import InputError


def check_picture(file: Path | None) -> None:
    """InputError, before hours of work, for a picture that could not be written."""
    if file is not None and file.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InputError(f"--plot is '{file}', expected a file that ends with .png, .pdf or .svg")
