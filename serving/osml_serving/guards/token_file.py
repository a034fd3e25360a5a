"""The file of tokens: one line a token, as `osml run tokens` writes it, or `NODE:SHA256` as it was before."""

from __future__ import annotations

import re
import stat
from datetime import datetime
from pathlib import Path

import msgspec

from osml.base.failure import InputError
from osml_serving.guards.grants import ANY_NODE, Grant, ScopeName

NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}"
PLAIN = re.compile(rf"^(\*|{NAME}):([0-9a-fA-F]{{64}})\Z")
DIGEST = re.compile(r"^[0-9a-f]{64}\Z")
NODE = re.compile(rf"^(\*|{NAME})\Z")
HINT = "expected a line of `osml run tokens create`, or 'NODE:SHA256' with '*' for all nodes"


class TokenLine(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One token. `expires` None: never. The token itself is nowhere: `sha256` is its hash."""

    id: str
    scope: ScopeName
    nodes: list[str]
    sha256: str
    created: datetime | None = None
    expires: datetime | None = None

    @property
    def grant(self) -> Grant:
        """What it allows."""
        return Grant(self.scope, frozenset(self.nodes), self.expires)


def parse_line(line: str) -> TokenLine | None:
    """The token of a line; None for a comment. Raises ValueError, whose text has nothing of the line."""
    entry = line.strip()
    if not entry or entry.startswith("#"):
        return None
    if not entry.startswith("{"):
        match = PLAIN.match(entry)
        if match is None:
            raise ValueError(HINT)
        scope: ScopeName = "admin" if match[1] == ANY_NODE else "agent"
        digest = match[2].lower()
        return TokenLine(digest[:8], scope, [match[1]], digest)
    try:
        token = msgspec.json.decode(entry, type=TokenLine)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(HINT) from error
    if not DIGEST.match(token.sha256) or not token.nodes or not all(NODE.match(node) for node in token.nodes):
        raise ValueError(HINT)
    if token.expires is not None and token.expires.tzinfo is None:
        raise ValueError("expected a time zone in `expires`, such as 2027-01-31T00:00:00Z")
    return token


def read_token_file(path: Path) -> str:
    """The text of the file. Raises InputError; a file that others can touch is refused."""
    try:
        mode = path.stat().st_mode
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the server cannot read the token file {path}: {error}") from None
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise InputError(
            f"token file {path} has mode {stat.S_IMODE(mode):04o}, expected 0640 or 0600, because other users must "
            f"not read or change it; run: chmod 0600 {path}"
        )
    return text


def parse(path: Path, text: str) -> list[TokenLine]:
    """The tokens of a file's text. Raises InputError with file and line; the line itself could be a secret."""
    tokens: list[TokenLine] = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            token = parse_line(line)
        except ValueError as error:
            raise InputError(f"token file {path}, line {number} is invalid, {error}") from None
        if token is not None:
            tokens.append(token)
    return tokens
