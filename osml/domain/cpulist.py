"""The kernel's CPU lists ("0-3,8") and way masks ("ff"), both ways."""

from __future__ import annotations

from collections.abc import Iterable

MAX_CPU = 8191  # CONFIG_NR_CPUS of the largest distribution kernels


def parse_cpulist(text: str) -> list[int]:
    """CPU ids in ascending order.

    Raises ValueError, naming the part, for anything but digits, ranges and commas.
    """
    cpus: set[int] = set()
    if not text.strip():
        return []
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if not (first.isascii() and first.isdigit()) or (dash and not (last.isascii() and last.isdigit())):
            raise ValueError(f"CPU list '{text}': '{part}' is neither an id nor a range like 0-3")
        low, high = int(first), int(last or first)
        if low > high or high > MAX_CPU:
            raise ValueError(f"CPU list '{text}': '{part}' is not ascending within 0..{MAX_CPU}")
        cpus.update(range(low, high + 1))
    return sorted(cpus)


def format_cpulist(cpus: Iterable[int]) -> str:
    """Shortest kernel list of a set of CPU ids: [0, 1, 2, 8] -> "0-2,8"."""
    parts: list[str] = []
    ordered = sorted(set(cpus))
    start = 0
    for end in range(len(ordered)):
        if end + 1 == len(ordered) or ordered[end + 1] != ordered[end] + 1:
            low, high = ordered[start], ordered[end]
            parts.append(str(low) if low == high else f"{low}-{high}")
            start = end + 1
    return ",".join(parts)


def is_contiguous(mask: int) -> bool:
    """True where the set bits of a mask form one run; an empty mask has none."""
    return mask > 0 and (mask // (mask & -mask) + 1) & (mask // (mask & -mask)) == 0
