"""The fair start: equal parts, within the operator's limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from osml.allocation.limits import Limits


def equal_split(total: int, order: Sequence[str], limits: Mapping[str, Limits]) -> dict[str, int]:
    """Units for each name, as equal as the limits allow; remainders to the first in `order`.

    Water-filling: everybody gets the highest common level that fits, bent to its limits; what is left of the next level
    goes one by one to those who may still grow. The leasts must fit in `total`.
    """

    def filled(level: int) -> dict[str, int]:
        return {name: max(limits[name].least, min(level, limits[name].most)) for name in order}

    low, high = 0, total
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if sum(filled(middle).values()) <= total else (low, middle - 1)
    parts = filled(low)
    left = total - sum(parts.values())
    growing = [name for name in order if parts[name] == low and parts[name] < limits[name].most]
    for name in growing[: max(0, left)]:
        parts[name] += 1
    return parts
