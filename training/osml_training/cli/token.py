"""The bearer token of a server, out of a file: never an option, which others on the machine could read."""

from __future__ import annotations

from pathlib import Path

from osml.base.failure import InputError


def read_token(file: Path | None) -> str | None:
    """The token, None without a file. InputError where the file has none."""
    if file is None:
        return None
    try:
        return file.read_text("ascii").strip()
    except OSError as error:
        raise InputError(f"--token-file {file} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"--token-file {file} contains characters that are not ASCII, expected one token") from None
