"""The language of resctrl's schemata file: text to staged values, and back.

Everything is checked before anything takes effect. The texts of errors are the kernel's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from osml.simulator.kernel import numbers
from osml.simulator.kernel.rdt import RdtProfile, Throttle

Values = dict[str, dict[int, int]]  # resource name -> domain id -> mask, percent or eighths of a GB/s


class Refused(Exception):  # noqa: N818 - what the kernel does, not a fault of this program
    """EINVAL with a text for last_cmd_status; an empty text leaves `ok` there, as the kernel does in places."""


@dataclass
class Others:
    """What else is on the cache: masks of the other groups by domain, and which of them are exclusive."""

    masks: list[dict[int, int]] = field(default_factory=list[dict[int, int]])
    exclusive: list[dict[int, int]] = field(default_factory=list[dict[int, int]])


def full_values(profile: RdtProfile) -> Values:
    """Everything open: all ways, full bandwidth."""
    values: Values = {}
    if profile.throttle is not None:
        values["MB"] = {domain: profile.throttle.high for domain, _ in profile.domains}
    values["L3"] = {domain: profile.full_mask for domain, _ in profile.domains}
    return values


def render(values: Values, cells: dict[str, dict[int, str]] | None = None) -> str:
    """The lines as the kernel prints them since 6.15: names right-aligned to six characters, values not padded."""
    lines: list[str] = []
    for resource, domains in values.items():
        texts = (cells or {}).get(resource) or {
            domain: f"{value:x}" if resource == "L3" else str(value) for domain, value in domains.items()
        }
        lines.append(f"{resource:>6}:" + ";".join(f"{domain}={texts[domain]}" for domain in sorted(domains)))
    return "".join(line + "\n" for line in lines)


def _lowest_run(mask: int) -> int:
    """The lowest contiguous run of a mask."""
    lowest = mask & -mask
    carried = mask + lowest
    return mask & ~carried


def parse_mask(text: str, profile: RdtProfile) -> int:
    """A capacity mask, checked as cbm_validate does: range, then contiguity, then the minimum."""
    try:
        mask = numbers.unsigned(text, 16)
    except OSError:
        raise Refused(f"Non-hex character in the mask {text}\n") from None
    if (mask == 0 and profile.min_cbm_bits > 0) or mask > profile.full_mask:
        raise Refused("Mask out of range\n")
    run = _lowest_run(mask)
    if run != mask and not profile.sparse_masks:
        raise Refused(f"The mask {mask:x} has non-consecutive 1-bits\n")
    if run.bit_count() < profile.min_cbm_bits:
        raise Refused(f"Need at least {profile.min_cbm_bits} bits in the mask\n")
    return mask


def _parse_throttle(text: str, throttle: Throttle) -> int:
    """A bandwidth, rounded up to the step after the range check."""
    try:
        value = numbers.unsigned(text, 10, bits=32)
    except OSError:
        raise Refused(f"Invalid MB value {text}\n") from None
    if not throttle.low <= value <= throttle.high:
        raise Refused(f"MB value {value} out of range [{throttle.low},{throttle.high}]\n")
    return -(-value // throttle.step) * throttle.step


def overlaps(mask: int, domain: int, groups: Iterable[dict[int, int]]) -> bool:
    """True where the mask meets the mask of one of the groups in that domain."""
    return any(mask & masks.get(domain, 0) for masks in groups)


def _parse_value(resource: str, domain: int, text: str, profile: RdtProfile, others: Others, exclusive: bool) -> int:
    if resource == "MB":
        assert profile.throttle is not None  # noqa: S101 - the caller looked the resource up
        return _parse_throttle(text, profile.throttle)
    mask = parse_mask(text, profile)
    if overlaps(mask, domain, others.exclusive):
        raise Refused("Overlaps with exclusive group\n")
    if exclusive and (mask & profile.shareable_bits or overlaps(mask, domain, others.masks)):
        raise Refused("Overlaps with other group\n")
    return mask


def stage(command: str, profile: RdtProfile, others: Others, exclusive: bool) -> Values:
    """The values that a command (without its final newline) would set; raises Refused and changes nothing.

    `exclusive`: the group that is written to is in exclusive mode.
    """
    known = full_values(profile)
    staged: Values = {}
    for line in command.split("\n"):
        head, colon, rest = line.partition(":")
        name = head.strip()
        if not colon:
            raise Refused("Missing ':'\n")
        if not rest:
            raise Refused(f"Missing '{name}' value\n")
        if name not in known:
            raise Refused(f"Unknown or unsupported resource name '{name}'\n")
        while rest:
            cell, _, rest = rest.partition(";")
            number, equals, text = cell.partition("=")
            try:
                domain = numbers.unsigned(number, 10)
            except OSError:
                domain = None
            if not equals or domain is None:
                raise Refused("Missing '=' or non-numeric domain\n")
            if domain not in known[name]:
                raise Refused("")
            if domain in staged.get(name, {}):
                raise Refused(f"Duplicate domain {domain}\n")
            value = _parse_value(name, domain, text.strip(), profile, others, exclusive)
            staged.setdefault(name, {})[domain] = value
    return staged


def default_mask(profile: RdtProfile, domain: int, shareable: Iterable[dict[int, int]], used: int) -> int:
    """The mask of a new group: hardware's bits, those of shareable groups and unused ones, cut to the lowest run."""
    mask = profile.shareable_bits | (profile.full_mask & ~(used | profile.shareable_bits))
    for masks in shareable:
        mask |= masks[domain]
    return mask if profile.sparse_masks else _lowest_run(mask)
