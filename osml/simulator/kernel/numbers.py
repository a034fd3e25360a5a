"""The kernel's number and CPU-list parsers, with their tolerance and their errors."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable

from osml.simulator.kernel.kernfs import error

_FORMS = {10: re.compile(r"\+?([0-9]+)\n?"), 16: re.compile(r"\+?(?:0[xX])?([0-9a-fA-F]+)\n?")}


def unsigned(text: str, base: int, bits: int = 64) -> int:
    """As kstrtoul: optional +, for base 16 optional 0x, one newline allowed; EINVAL or ERANGE."""
    match = _FORMS[base].fullmatch(text)
    if match is None:
        raise error(errno.EINVAL)
    value = int(match[1], base)
    if value >= 1 << bits:
        raise error(errno.ERANGE)
    return value


def signed_any_base(text: str, bits: int = 32) -> int:
    """As kstrtoint with base 0: 0x is hexadecimal, a leading 0 octal; EINVAL or ERANGE."""
    match = re.fullmatch(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*))\n?", text)
    if match is None:
        raise error(errno.EINVAL)
    sign, hexadecimal, octal, decimal = match.groups()
    value = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else int(decimal)
    value = -value if sign == "-" else value
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise error(errno.ERANGE)
    return value


def _list_number(text: str, n_cpus: int) -> int:
    if text == "N":
        return n_cpus - 1
    if not (text.isascii() and text.isdigit()):
        raise error(errno.EINVAL)
    return int(text)


def cpu_list(text: str, n_cpus: int) -> frozenset[int]:
    """As bitmap_parselist: '0-3,8', strides '0-7:1/2', 'N' for the last CPU, 'all'; EINVAL or ERANGE."""
    cpus: set[int] = set()
    for part in re.split(r"[,\s]+", text.strip()):
        if not part:
            continue
        if part == "all":
            cpus.update(range(n_cpus))
            continue
        match = re.fullmatch(r"([0-9N]+)(?:-([0-9N]+)(?::([0-9]+)/([0-9]+))?)?", part)
        if match is None:
            raise error(errno.EINVAL)
        first = _list_number(match[1], n_cpus)
        last = _list_number(match[2], n_cpus) if match[2] else first
        used, group = (int(match[3]), int(match[4])) if match[3] else (1, 1)
        if first > last or used == 0 or group == 0 or used > group:
            raise error(errno.EINVAL)
        if last >= n_cpus:
            raise error(errno.ERANGE)
        cpus.update(cpu for cpu in range(first, last + 1) if (cpu - first) % group < used)
    return frozenset(cpus)


def cpu_mask(text: str, n_cpus: int) -> frozenset[int]:
    """As bitmap_parse: hexadecimal with a comma every 32 bits; EINVAL or EOVERFLOW."""
    chunks = text.strip().split(",")
    if chunks == [""]:
        return frozenset()
    mask = 0
    for chunk in chunks:
        if not re.fullmatch(r"[0-9a-fA-F]+", chunk):
            raise error(errno.EINVAL)
        if len(chunk.lstrip("0")) > 8:
            raise error(errno.EOVERFLOW)
        mask = mask << 32 | int(chunk, 16)
    if mask >> n_cpus:
        raise error(errno.EOVERFLOW)
    return frozenset(cpu for cpu in range(n_cpus) if mask >> cpu & 1)


def format_mask(cpus: Iterable[int], n_cpus: int) -> str:
    """A CPU mask as the kernel prints it: as wide as the machine, a comma every 32 bits."""
    mask = sum(1 << cpu for cpu in cpus)
    digits = -(-n_cpus // 4)
    text = f"{mask:0{digits}x}"
    chunks: list[str] = []
    while len(text) > 8:
        chunks.insert(0, text[-8:])
        text = text[:-8]
    return ",".join([text, *chunks])
