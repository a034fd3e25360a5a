"""Which model belongs to a machine: an agent sends the name of its CPU, models are called by a short one."""

from __future__ import annotations

import re

_CLOCK = re.compile(r"@.*$")
_CORES = re.compile(r"\b\d+-core\b")
_MAKERS = re.compile(r"\((r|tm|c)\)|\b(intel|amd|ampere|xeon|core|cpu|processor|genuine)\b")
_OTHER = re.compile(r"[^a-z0-9]+")


def short_name(platform: str) -> str:
    """The part of a CPU's name that tells it from others: letters and digits of its number, in lower case.

    "Intel(R) Xeon(R) CPU E5-2697 v4 @ 2.30GHz" and "e5-2697v4" are both `e52697v4`. A part of a machine ("ID@8x11")
    is called so, too, and is no clock.
    """
    text = platform.lower()
    if "ghz" in text:
        text = _CLOCK.sub("", text)
    return _OTHER.sub("", _MAKERS.sub(" ", _CORES.sub(" ", text)))
