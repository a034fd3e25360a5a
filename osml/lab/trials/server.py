"""The server of a trial."""

from __future__ import annotations

import httpx


def is_ready(url: str) -> bool:
    """Whether the server at this address decides."""
    try:
        return httpx.get(f"{url}/readyz", timeout=1.0).is_success
    except httpx.HTTPError:
        return False
