"""Bearer tokens and what they allow, kept as SHA-256 only."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from pathlib import Path

from osml.base.failure import InputError
from osml_serving.guards.grants import Grant, ScopeName
from osml_serving.guards.token_file import HINT, TokenLine, parse, read_token_file

PREFIX = 16  # bytes; two tokens that share them do not happen


class Tokens:
    """The grant of each token. A node may have several tokens, so that one is replaced without a gap."""

    def __init__(self, lines: Iterable[TokenLine]) -> None:
        self._by_prefix: dict[bytes, TokenLine] = {}
        for line in lines:
            prefix = bytes.fromhex(line.sha256)[:PREFIX]
            known = self._by_prefix.get(prefix)
            if known is not None:  # one token for several nodes, a line for each
                line.nodes = sorted({*known.nodes, *line.nodes})
                line.scope = "admin" if "admin" in (known.scope, line.scope) else line.scope
                line.expires = min([each.expires for each in (known, line) if each.expires is not None], default=None)
            self._by_prefix[prefix] = line
        self._grants = {prefix: line.grant for prefix, line in self._by_prefix.items()}

    def replace(self, other: Tokens) -> None:
        """Replace all tokens by those of another file, from the next request on."""
        self._by_prefix, self._grants = other._by_prefix, other._grants

    def grant_of(self, token: str) -> Grant | None:
        """What the token allows; None where it is unknown or has expired.

        The time of the look-up reveals at most a prefix of the hash of the given token, which does not lead back to a
        valid token. It does not grow with the number of nodes.
        """
        presented = hashlib.sha256(token.encode("latin-1", "replace")).digest()
        line = self._by_prefix.get(presented[:PREFIX])
        if line is None or not hmac.compare_digest(bytes.fromhex(line.sha256), presented):
            return None
        grant = self._grants[presented[:PREFIX]]
        return None if grant.expired else grant


def read_tokens(path: Path) -> Tokens:
    """Tokens of a file. Raises InputError, naming file and line; a file that others can touch is refused."""
    lines = parse(path, read_token_file(path))
    if not lines:
        raise InputError(f"token file {path} contains no token, {HINT}")
    scopes: dict[str, ScopeName] = {}
    for line in lines:
        known = scopes.setdefault(line.sha256.lower(), line.scope)
        if known != line.scope and "admin" not in (known, line.scope):
            raise InputError(
                f"token file {path} has the token '{line.id}' with the scopes {known} and {line.scope}; "
                "expected one scope for each token: make a token for each with `osml run tokens create`"
            )
    return Tokens(lines)


def stamp_of(path: Path) -> tuple[int, ...] | None:
    """What changes when the file does, or who may read it; None where it is missing."""
    try:
        status = path.stat()  # through links: Kubernetes exchanges the link of a folder
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino  # ctime: chmod changes no other
