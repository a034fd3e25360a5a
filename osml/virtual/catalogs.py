"""Reads the catalogs. Every parameter says whether it was published (and where) or fitted."""

from __future__ import annotations

import math
from dataclasses import fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, cast

import yaml

from osml.virtual.models import JobModel, MemoryBehaviour, PlatformModel, ServiceModel


class CatalogError(ValueError):
    """A catalog or a name that is looked up in one is wrong. The text is one sentence for the user."""


_ZERO_IS_FINE = {"cv2", "burstiness", "switch_cost", "latency_rise"}
_KINDS: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool}


def _value(where: str, name: str, entry: object, kind: type) -> Any:
    """The value of one parameter after all checks. `where` names the catalog and its entry."""
    if not isinstance(entry, dict) or ("published" in entry) == ("fitted" in entry):
        raise CatalogError(f"{where}: '{name}' is {entry!r}, expected either 'published' with a 'source' or 'fitted'")
    given = cast(dict[str, Any], entry)
    unknown = set(given) - {"published", "fitted", "source", "note"}
    if unknown or ("published" in given and not given.get("source")):
        raise CatalogError(f"{where}: '{name}' is {entry!r}, expected 'published' with a 'source' or 'fitted', no more")
    value = given.get("published", given.get("fitted"))
    if kind in (str, bool):
        if not isinstance(value, kind):
            raise CatalogError(f"{where}: '{name}' is {value!r}, expected {'text' if kind is str else 'true or false'}")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise CatalogError(f"{where}: '{name}' is {value!r}, expected a number")
    if value < 0 or (value == 0 and name not in _ZERO_IS_FINE):
        raise CatalogError(f"{where}: '{name}' is {value}, expected a value above 0")
    if kind is int and value != int(value):
        raise CatalogError(f"{where}: '{name}' is {value}, expected a whole number")
    return kind(value)


def _build(model: type, where: str, name_field: str, name: str, entry: object) -> Any:
    """One model out of one catalog entry."""
    if not isinstance(entry, dict):
        raise CatalogError(f"{where}: expected a mapping of parameters, found {entry!r}")
    left = {str(key): value for key, value in cast(dict[object, object], entry).items()}

    def fill(kind: type) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field in fields(kind):
            if field.name == name_field:
                values[name_field] = name
            elif field.name == "memory":
                values["memory"] = MemoryBehaviour(**fill(MemoryBehaviour))
            elif field.name not in left:
                raise CatalogError(f"{where}: '{field.name}' is missing, add it as published or fitted")
            else:
                values[field.name] = _value(where, field.name, left.pop(field.name), _KINDS[str(field.type)])
        return values

    built = model(**fill(model))
    if left:
        raise CatalogError(f"{where}: unknown parameter '{min(left)}', remove it or correct its name")
    return built


def parse_catalog(text: str, model: type, file: str) -> dict[str, Any]:
    """Every entry of a catalog by its name; raises CatalogError with one sentence for the first thing that is wrong."""
    try:
        document: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CatalogError(f"{file}: not readable as YAML ({' '.join(str(error).split())})") from None
    if not isinstance(document, dict) or not document:
        raise CatalogError(f"{file}: expected a mapping of names to parameters")
    name_field = "id" if model is PlatformModel else "name"
    entries = {str(name): entry for name, entry in cast(dict[object, object], document).items()}
    built = {name: _build(model, f"{file}: {name}", name_field, name, entry) for name, entry in entries.items()}
    for name, entry in built.items():
        if isinstance(entry, PlatformModel) and entry.cpus not in (entry.physical_cores, 2 * entry.physical_cores):
            raise CatalogError(f"{file}: {name}: 'cpus' is {entry.cpus}, expected one or two per physical core")
    return built


@cache
def _shipped(file: str, model: type) -> dict[str, Any]:
    text = resources.files("osml.virtual").joinpath("catalog", file).read_text("utf-8")
    return parse_catalog(text, model, f"catalog/{file}")


def load_file(path: Path, model: type) -> dict[str, Any]:
    """A catalog of the user's own."""
    try:
        return parse_catalog(path.read_text("utf-8"), model, str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogError(f"{path}: cannot be read ({error})") from None


def _find(kind: str, name: str, known: dict[str, Any]) -> Any:
    if name not in known:
        raise CatalogError(f"unknown {kind} '{name}', known are {', '.join(sorted(known))}")
    return known[name]


def platform(name: str) -> PlatformModel:
    """A platform of the shipped catalog; CatalogError lists the known ones."""
    return _find("platform", name, _shipped("platforms.yaml", PlatformModel))


def service(name: str) -> ServiceModel:
    """A latency-critical service of the shipped catalog; CatalogError lists the known ones."""
    return _find("LC service", name, _shipped("services.yaml", ServiceModel))


def job(name: str) -> JobModel:
    """A best-effort job of the shipped catalog; CatalogError lists the known ones."""
    return _find("BE job", name, _shipped("jobs.yaml", JobModel))


def platform_names() -> list[str]:
    """All shipped platforms."""
    return sorted(_shipped("platforms.yaml", PlatformModel))


def service_names() -> list[str]:
    """All shipped latency-critical services."""
    return sorted(_shipped("services.yaml", ServiceModel))


def job_names() -> list[str]:
    """All shipped best-effort jobs."""
    return sorted(_shipped("jobs.yaml", JobModel))
