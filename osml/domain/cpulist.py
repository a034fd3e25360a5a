"""The kernel's CPU lists ("0-3,8") and way masks ("ff"), both ways."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

MAX_CPU = 8191  # CONFIG_NR_CPUS of the largest distribution kernels


def parse_cpulist(text: str) -> list[int]:
    """CPU ids in ascending order.

    Raises ValueError, naming the part, for anything but digits, ranges and commas.
    """
    bits = bin(cpu_mask(text))[:1:-1]  # a list may name the same thousands of CPUs again and again
    return [cpu for cpu, bit in enumerate(bits) if bit == "1"]


def cpu_mask(text: str) -> int:
    """The same as a mask with a bit for each CPU. Raises ValueError as `parse_cpulist`."""
    return _mask_kept(text) if len(text) <= _LONGEST_KEPT else _mask(text)


_LONGEST_KEPT = 256


def _mask(text: str) -> int:
    mask = 0
    for low, high in _ranges(text):
        mask |= ((1 << (high - low + 1)) - 1) << low
    return mask


_mask_kept = lru_cache(maxsize=4096)(_mask)
"""Nodes send the same lists in every interval. A mask has at most a kilobyte, however many CPUs somebody claims."""


def lowest_cpu(mask: int) -> int:
    """The lowest CPU of a mask; -1 of an empty one."""
    return (mask & -mask).bit_length() - 1


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    """First and last CPU of each part."""
    if not text.strip():
        return
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if not (first.isascii() and first.isdigit()) or (dash and not (last.isascii() and last.isdigit())):
            raise ValueError(f"CPU list '{text}': '{part}' is neither an id nor a range like 0-3")
        low, high = int(first), int(last or first)
        if low > high or high > MAX_CPU:
            raise ValueError(f"CPU list '{text}': '{part}' is not ascending within 0..{MAX_CPU}")
        yield low, high


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
