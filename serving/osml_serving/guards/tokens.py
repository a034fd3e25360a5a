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
HINT = "expected 'NODE:SHA256', with '*' for all nodes; compute the hash with: printf %s TOKEN | sha256sum"


class Tokens:
    """The nodes of each token. A node may have several tokens, so that one is replaced without a gap."""

    def __init__(self, nodes_by_digest: Mapping[bytes, frozenset[str]]) -> None:
        self._by_prefix = {digest[:PREFIX]: (digest, nodes) for digest, nodes in nodes_by_digest.items()}

    def replace(self, other: Tokens) -> None:
        """Replace all tokens by those of another file, from the next request on."""
        self._by_prefix = other._by_prefix

    def nodes_of(self, token: str) -> frozenset[str] | None:
        """Nodes for which the token is valid ('*' = any); None where the token is unknown.

        The time of the look-up reveals at most a prefix of the hash of the given token, which does not lead back to a
        valid token. It does not grow with the number of nodes.
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
        raise InputError(f"the server cannot read the token file {path}: {error}") from None
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise InputError(
            f"token file {path} has mode {stat.S_IMODE(mode):04o}, expected 0640 or 0600, because other users must "
            f"not read or change it; run: chmod 0600 {path}"
        )
    nodes_by_digest: dict[bytes, set[str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        match = LINE.match(entry)
        if match is None:
            # The message omits the line, which could contain a secret.
            raise InputError(f"token file {path}, line {number} is invalid, {HINT}")
        nodes_by_digest.setdefault(bytes.fromhex(match[2]), set()).add(match[1])
    if not nodes_by_digest:
        raise InputError(f"token file {path} contains no token, {HINT}")
    return Tokens({digest: frozenset(nodes) for digest, nodes in nodes_by_digest.items()})
