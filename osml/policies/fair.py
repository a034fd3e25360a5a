"""The fair start: equal parts, within the operator's limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from osml.policies.limits import Limits


def equal_split(total: int, order: Sequence[str], limits: Mapping[str, Limits]) -> dict[str, int]:
    """Units for each name, as equal as the limits allow; remainders to the first in `order`.

    Everybody starts at the least it may have; the smallest part below its most is raised by one until nothing is left.
    The leasts must fit in `total`.
    """
    parts = {name: limits[name].least for name in order}
    for _ in range(total - sum(parts.values())):
        growing = [name for name in order if parts[name] < limits[name].most]
        if not growing:
            break
        parts[min(growing, key=lambda name: parts[name])] += 1
    return parts
