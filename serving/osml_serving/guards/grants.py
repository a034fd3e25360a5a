"""What a token allows: a scope, and the nodes that it is for."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

ANY_NODE = "*"
ScopeName = Literal["agent", "viewer", "metrics", "contributor", "admin"]
Right = Literal["decide", "view", "infer", "metrics", "contribute", "datasets"]

RIGHTS: dict[ScopeName, frozenset[Right]] = {
    "agent": frozenset({"decide", "view", "infer"}),
    "viewer": frozenset({"view", "infer", "datasets"}),
    "metrics": frozenset({"metrics"}),
    "contributor": frozenset({"contribute", "datasets"}),
    "admin": frozenset({"decide", "view", "infer", "metrics", "contribute", "datasets"}),
}
MEANINGS: dict[ScopeName, str] = {
    "agent": "decisions, experiences and the view of its nodes",
    "viewer": "the dashboard: nodes, events, models, results of data sets",
    "metrics": "/metrics",
    "contributor": "uploads of data sets",
    "admin": "everything, without a share limit",
}


@dataclass(frozen=True)
class Grant:
    """The scope and nodes of a token. Tokens with the same ones share their limits. `expires` None: never."""

    scope: ScopeName
    nodes: frozenset[str]
    expires: datetime | None = field(default=None, compare=False)

    @property
    def expired(self) -> bool:
        """True where the token is no longer valid."""
        return self.expires is not None and datetime.now(UTC) >= self.expires

    @property
    def all_nodes(self) -> bool:
        """True where the token is for every node."""
        return ANY_NODE in self.nodes

    @property
    def fleet(self) -> bool:
        """True for the token of a whole fleet of agents, which gets a larger share."""
        return self.all_nodes and self.scope == "agent"

    @property
    def limited(self) -> bool:
        """True where the token gets a share of the server only."""
        return self.scope != "admin"

    def has(self, right: Right) -> bool:
        """True where the scope has a right."""
        return right in RIGHTS[self.scope]

    def is_for(self, node: str) -> bool:
        """True where the token is for this node."""
        return self.all_nodes or node in self.nodes


ADMIN = Grant("admin", frozenset({ANY_NODE}))


def right_of(method: str, path: str) -> Right | None:
    """The right that a request needs; None for probes, documents and the page, which need no token."""
    if path == "/metrics":
        return "metrics"
    if path == "/v1/datasets" or path.startswith("/v1/datasets/"):
        return "datasets" if method in ("GET", "HEAD") else "contribute"
    if path.startswith("/v2/models"):
        return "infer"
    if path == "/v1" or path.startswith("/v1/"):
        return "view" if method in ("GET", "HEAD") else "decide"
    return None
