"""Where a fresh sweep is kept: under the state of the node that made it, for another node has other surfaces."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from pathlib import Path

CACHE = Path("out/train")
"""Fresh sweeps are kept here."""

FRESH_ROWS = 700_000
"""Of a fresh sweep, where nobody says another number."""


def digest_of(root: Path) -> str:
    """A digest of the sources and data of a package, and of their names."""
    digest = hashlib.sha256()
    for path in sorted(found for found in root.rglob("*") if found.suffix not in {"", ".pyc"}):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:8]


@cache
def node_digest() -> str:
    """What tells this virtual node from all others: its sources and catalogs."""
    return digest_of(Path(str(resources.files("osml.simulator"))))


def kept_in(name: str) -> Path:
    """The folder of a sweep of this node."""
    return CACHE / f"{name}-{node_digest()}"
