"""Bearer tokens scoped to nodes, kept as SHA-256 only."""

from __future__ import annotations

import hashlib
import hmac
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from osml.base.failure import InputError

ANY_NODE = "*"
PREFIX = 16  # bytes; two tokens that share them do not happen
LINE = re.compile(r"^(\*|[A-Za-z0-9][A-Za-z0-9_.-]{0,62}):([0-9a-fA-F]{64})\Z")
HINT = "expected 'node:sha256hex' with '*' for any node; make the second part with: printf %s TOKEN | sha256sum"


class Tokens:
    """Who may speak for which node. Several tokens a node are fine: that is how one is replaced without a gap."""

    def __init__(self, nodes_by_digest: Mapping[bytes, frozenset[str]]) -> None:
        self._by_prefix = {digest[:PREFIX]: (digest, nodes) for digest, nodes in nodes_by_digest.items()}

    def become(self, other: Tokens) -> None:
        """Take the place of what was given out before, for all who hold this object, from the next request on."""
        self._by_prefix = other._by_prefix

    def nodes_of(self, token: str) -> frozenset[str] | None:
        """Nodes that the token speaks for ('*' = any); None where no such token was given out.

        The time taken tells at most something about a prefix of the guess's own hash, from which nobody gets back to
        a token; it does not grow with the number of nodes.
        """
        presented = hashlib.sha256(token.encode("latin-1", "replace")).digest()
        digest, nodes = self._by_prefix.get(presented[:PREFIX], (bytes(32), None))
        return nodes if hmac.compare_digest(digest, presented) else None


def read_tokens(path: Path) -> Tokens:
    """Tokens of a file. Raises InputError, naming file and line; a file that others can touch is refused."""
    try:
        mode = path.stat().st_mode
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"token file {path} can't be read: {error}") from None
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise InputError(
            f"token file {path} has mode {stat.S_IMODE(mode):04o}: others could read or change it, expected 0640 or "
            f"0600; run: chmod 0600 {path}"
        )
    nodes_by_digest: dict[bytes, set[str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        found = LINE.match(entry)
        if found is None:
            raise InputError(f"token file {path}, line {number}: {HINT}")  # the line itself could be a secret
        nodes_by_digest.setdefault(bytes.fromhex(found[2]), set()).add(found[1])
    if not nodes_by_digest:
        raise InputError(f"token file {path} holds no token: {HINT}")
    return Tokens({digest: frozenset(nodes) for digest, nodes in nodes_by_digest.items()})
