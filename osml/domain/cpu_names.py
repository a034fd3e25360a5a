"""Names of machines: an agent sends the name of its CPU, models and folders of data are called by a short one."""

from __future__ import annotations

import re
from functools import lru_cache

_CLOCK = re.compile(r"@.*$")
_CORES = re.compile(r"\b\d+-core\b")
_MAKERS = re.compile(r"\((r|tm|c)\)|\b(intel|amd|ampere|xeon|core|cpu|processor|genuine)\b")
_NOT_TELLING = re.compile(r"\((r|tm|c)\)|\b(cpu|processor)\b")
_OTHER = re.compile(r"[^a-z0-9]+")


@lru_cache(maxsize=1024)
def short_name(platform: str) -> str:
    """The part of a CPU's name that tells it from others: letters and digits of its number, in lower case.

    "Intel(R) Xeon(R) CPU E5-2697 v4 @ 2.30GHz" and "e5-2697v4" are both `e52697v4`. A part of a machine ("ID@8x11")
    is called so, too, and is no clock. Clouds leave out the number: there the clock tells, or the maker.
    """
    text = platform.lower()
    return _number_of(_without_clock(text)) or _number_of(text) or _OTHER.sub("", _NOT_TELLING.sub(" ", text)) or text


def _without_clock(text: str) -> str:
    return _CLOCK.sub("", text) if "ghz" in text else text


def _number_of(text: str) -> str:
    return _OTHER.sub("", _MAKERS.sub(" ", _CORES.sub(" ", text)))


_CPU_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ()@.,+_~-]{0,99}\Z")


def folder_name(platform: str) -> str:
    """The name of a CPU as the name of a folder; what is no CPU's name comes back as it is.

    "Intel(R) Xeon(R) CPU E5-2697 v4 @ 2.30GHz" is `intel-xeon-e5-2697-v4`. `short_name` of both is the same.
    """
    if " " not in platform or not _CPU_NAME.match(platform):
        return platform
    text = platform.lower()
    if _number_of(_without_clock(text)):
        text = _without_clock(text)
    return _OTHER.sub("-", _NOT_TELLING.sub(" ", _CORES.sub(" ", text))).strip("-") or platform
