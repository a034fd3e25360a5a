"""Numbers for people."""

from __future__ import annotations

_WHOLE = 999.5
"""From here on three digits would be a power of ten, as 1e+03 for a second in ms."""


def brief(value: float, sign: str = "") -> str:
    """A number with three significant digits, larger ones as whole numbers; `sign` is `+` where that is to be shown."""
    return f"{value:{sign},.0f}" if abs(value) >= _WHOLE else f"{value:{sign}.3g}"
