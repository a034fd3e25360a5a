"""Which numbers of the node are assumed: nobody published them, and no fit found them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

import msgspec
import yaml

from osml.simulator.catalogs import shipped_text
from osml.simulator.models import JobModel, PlatformModel, ServiceModel

COMPILED = {
    "queueing.response": ("MAX_UTILISATION",),
    "queueing.transient": ("_COMMON",),
    "physics.cpu": ("HABIT", "MOVED_MS", "_COMING_AND_GOING", "CALMED", "_HEAVY"),
    "physics.memory": ("MAX_UTILISATION", "_POLE", "_LEAST_SHARE"),
    "physics.stations": ("_FULL", "_DISK_SLICE_MS"),
    "physics.step": ("_SHORT", "_LONG", "_RARE"),
    "physics.waking": ("_LATENCY_SLICES", "_CREDIT", "_CALM", "_BETWEEN", "_TICKED"),
}
"""Constants that numba freezes into machine code, by module below osml.simulator."""

_OF_THE_FIT = ("KNEE", "KNEE_RATIO", "USUAL_SHARE")
"""Constants of fit.py: the services are fitted again."""

_PLATFORM_FIELDS = (
    "usable_bandwidth", "memory_latency_ns", "latency_rise", "latency_power", "llc_gbps", "llc_latency_ns", "smt_speed",
    "time_slice_ms", "warmup_s", "all_core_ghz", "turbo_ghz", "disk_iops", "disk_mbps", "network_gbps",
)  # fmt: skip
"""Fields of platforms that are fitted by hand; where one is published it stays."""

AT_MOST = {
    "smt_speed": 1.0, "usable_bandwidth": 1.0, "miss_min": 0.99, "MAX_UTILISATION": 0.995, "_FULL": 0.995,
    "CALMED": 1.0, "HABIT": 1.0, "KNEE": 0.99,
}  # fmt: skip
"""Shares stay shares."""

CATALOGS: dict[str, type] = {"platforms": PlatformModel, "services": ServiceModel, "jobs": JobModel}


class Constant(msgspec.Struct, frozen=True):
    """An assumed number: `place` is a module below osml.simulator or a catalog, `value` None where entries differ."""

    place: str
    name: str
    value: float | None

    @property
    def id(self) -> str:
        """Its name in tables."""
        return f"{self.place}.{self.name}" if self.place else self.name


AS_IS = Constant("", "as is", None)


@cache
def entries(file: str) -> dict[str, Any]:
    """A shipped catalog as it is written, by name."""
    return cast(dict[str, Any], yaml.safe_load(shipped_text(f"{file}.yaml")))


def _is_assumed(file: str, name: str, entry: object) -> bool:
    """Whether an entry of a catalog is a number that nobody published and no fit found."""
    if not isinstance(entry, dict):
        return False
    given = cast(dict[str, Any], entry)
    value = given.get("fitted")
    if isinstance(value, bool) or not isinstance(value, int | float) or value == 0:
        return False
    by_hand = file == "platforms" and name in _PLATFORM_FIELDS
    return by_hand or str(given.get("note", "")).startswith("assumed")


def assumed_in(file: str, parameters: Mapping[str, Any]) -> set[str]:
    """Names of the assumed numbers of one entry of a catalog."""
    return {name for name, entry in parameters.items() if _is_assumed(file, name, entry)}


def _fields_of(file: str) -> list[str]:
    """Names of all fields with an assumed number in some entry of a catalog."""
    found = set[str]()
    for parameters in entries(file).values():
        found |= assumed_in(file, parameters)
        for own in parameters.get("deployments", {}).values():
            found |= assumed_in(file, own)
    return sorted(found)


def constants() -> list[Constant]:
    """All assumed numbers: fields of catalogs, which are quick, then constants of the fit, then compiled ones."""
    found = [Constant(file, name, None) for file in CATALOGS for name in _fields_of(file)]
    for module, names in {"calibration.fit": _OF_THE_FIT, **COMPILED}.items():
        values = vars(importlib.import_module(f"osml.simulator.{module}"))
        found += [Constant(module, name, float(values[name])) for name in names]
    return found
