"""The bearer token of a server, out of a file: never an option, which others on the machine could read."""

from __future__ import annotations

from pathlib import Path

from osml.base.failure import InputError

_LONGEST = 4096


def read_token(file: Path | None) -> str | None:
    """The token, None without a file. InputError where the file has none."""
    if file is None:
        return None
    try:
        with file.open("rb") as stream:
            text = stream.read(_LONGEST + 1)
    except OSError as error:
        raise InputError(f"--token-file {file} can't be read: {error.strerror}") from None
    if not text.strip():
        raise InputError(f"--token-file {file} is empty, expected one token: `osml run tokens create` prints one")
    words = text.split()
    if len(text) > _LONGEST or len(words) != 1 or not words[0].isascii() or not words[0].decode("ascii").isprintable():
        raise InputError(
            f"--token-file {file} is not one word of ASCII characters, expected one token and nothing else"
        )
    return words[0].decode("ascii")
