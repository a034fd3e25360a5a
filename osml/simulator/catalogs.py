"""Reads the catalogs. Every parameter says whether it was published (and where) or fitted."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import yaml

from osml.simulator.board import MOST_DOMAINS
from osml.simulator.models import JobModel, MemoryBehaviour, PlatformModel, ServiceModel

_Entries = TypeVar("_Entries")


class CatalogError(ValueError):
    """A catalog or a name that is looked up in one is wrong. The text is one sentence for the user."""


def entries_of(text: str, file: str, kind: type[_Entries]) -> _Entries:
    """YAML text of `file` as a type that msgspec knows; CatalogError says in one sentence what is wrong with it."""
    try:
        return msgspec.convert(yaml.safe_load(text), kind)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise CatalogError(f"{file}: {' '.join(str(error).split())}") from None


def shipped_text(file: str) -> str:
    """The text of a file of the folder catalog."""
    return resources.files("osml.simulator").joinpath("catalog", file).read_text("utf-8")


_ZERO_IS_FINE = {
    "cv2",
    "burstiness",
    "switch_cost",
    "latency_rise",
    "stack_ms",
    "serial_ms",
    "disk_ios",
    "pages",
    "network_kib",
    "device_kib",
    "disk_mbps",
    "network_gbps",
    "flows",
    "reserved_gib",
}
_ORIGINS = ("published", "measured", "fitted")
"""Where a number may come from. `measured` ones (`osml look profile`) may say their `error`."""

PERCENTILES = ("p50", "p95", "p99")
VENDORS = ("intel", "amd")
MAX_WAYS = 62
MAX_THREADS = 4096
_KINDS: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool}


def _value(where: str, name: str, entry: object, kind: type) -> Any:
    """The value of one parameter after all checks. `where` names the catalog and its entry."""
    if not isinstance(entry, dict) or sum(origin in entry for origin in _ORIGINS) != 1:
        raise CatalogError(
            f"{where}: '{name}' is {entry!r}, expected either 'published' or 'measured' with a 'source' or 'fitted'"
        )
    given = cast(dict[str, Any], entry)
    origin = next(origin for origin in _ORIGINS if origin in given)
    unknown = set(given) - {origin, "source", "note"} - ({"error"} if origin == "measured" else set())
    if unknown or (origin != "fitted" and not given.get("source")):
        raise CatalogError(f"{where}: '{name}' is {entry!r}, expected '{origin}' with a 'source' or 'fitted' only")
    value = given[origin]
    if name == "domains" and isinstance(value, list):
        raise CatalogError(
            f"{where}: 'domains' is {value!r}, expected a number: the virtual node has cache domains of one size only"
        )
    if kind in (str, bool):
        if not isinstance(value, kind):
            raise CatalogError(f"{where}: '{name}' is {value!r}, expected {'text' if kind is str else 'true or false'}")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise CatalogError(f"{where}: '{name}' is {value!r}, expected a number")
    if value < 0 or (value == 0 and name not in _ZERO_IS_FINE):
        raise CatalogError(f"{where}: '{name}' is {value}, expected a value above 0")
    if name == "threads" and value > MAX_THREADS:
        raise CatalogError(f"{where}: 'threads' is {value}, expected at most {MAX_THREADS}")
    if kind is int and value != int(value):
        raise CatalogError(f"{where}: '{name}' is {value}, expected a whole number")
    return kind(value)


def _mapping(where: str, entry: object) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise CatalogError(f"{where}: expected a mapping of parameters, found {entry!r}")
    return {str(key): value for key, value in cast(dict[object, object], entry).items()}


def _build(model: type, where: str, given: dict[str, Any], fixed: dict[str, str]) -> Any:
    """One model out of the parameters `given`; `fixed` are fields that are no parameters (names)."""
    left = dict(given)

    def fill(kind: type) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field in fields(kind):
            if field.name in fixed:
                values[field.name] = fixed[field.name]
            elif field.name == "memory":
                values["memory"] = MemoryBehaviour(**fill(MemoryBehaviour))
            elif field.name not in left and field.default is not MISSING:
                continue
            elif field.name not in left:
                raise CatalogError(f"{where}: '{field.name}' is missing, add it as published or fitted")
            else:
                values[field.name] = _value(where, field.name, left.pop(field.name), _KINDS[str(field.type)])
        return values

    built = model(**fill(model))
    if left:
        raise CatalogError(f"{where}: unknown parameter '{min(left)}', remove it or correct its name")
    return built


def _deployments(where: str, name: str, entry: object) -> dict[str, ServiceModel]:
    """A service on each platform where it was measured: its behaviour, and what the deployment sets or replaces."""
    behaviour = _mapping(where, entry)
    if "deployments" not in behaviour:
        raise CatalogError(f"{where}: 'deployments' is missing, add at least one platform with its max_load")
    found = _mapping(f"{where}: deployments", behaviour.pop("deployments"))
    if not found:
        raise CatalogError(f"{where}: 'deployments' is empty, add at least one platform with its max_load")
    services: dict[str, ServiceModel] = {}
    for platform_id, own in found.items():
        place = f"{where}: {platform_id}"
        given = behaviour | _mapping(place, own)
        service: ServiceModel = _build(
            ServiceModel, place, given, {"name": name, "platform": platform_id, "scaled": ""}
        )
        if service.percentile not in PERCENTILES:
            raise CatalogError(f"{place}: 'percentile' is {service.percentile!r}, expected one of {PERCENTILES}")
        if service.usable > 1:
            raise CatalogError(f"{place}: 'usable' is {service.usable}, expected a share of at most 1")
        services[platform_id] = service
    return services


def parse_catalog(text: str, model: type, file: str) -> dict[str, Any]:
    """Every entry of a catalog by its name: platforms, jobs, or for services a mapping of platform to service.

    Raises CatalogError with one sentence for the first thing that is wrong.
    """
    try:
        document: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CatalogError(f"{file}: not readable as YAML ({' '.join(str(error).split())})") from None
    if not isinstance(document, dict) or not document:
        raise CatalogError(f"{file}: expected a mapping of names to parameters")
    built: dict[str, Any] = {}
    for key, entry in cast(dict[object, object], document).items():
        name = str(key)
        where = f"{file}: {name}"
        if model is ServiceModel:
            built[name] = _deployments(where, name, entry)
        elif model is PlatformModel:
            platform: PlatformModel = _build(model, where, _mapping(where, entry), {"id": name})
            if platform.cpus not in (platform.physical_cores, 2 * platform.physical_cores):
                raise CatalogError(f"{where}: 'cpus' is {platform.cpus}, expected one or two per physical core")
            if platform.vendor not in VENDORS:
                raise CatalogError(f"{where}: 'vendor' is {platform.vendor!r}, expected one of {VENDORS}")
            if platform.domains > MOST_DOMAINS:
                raise CatalogError(f"{where}: 'domains' is {platform.domains}, expected at most {MOST_DOMAINS}")
            if platform.ways > MAX_WAYS:
                raise CatalogError(f"{where}: 'ways' is {platform.ways}, expected at most {MAX_WAYS}")
            built[name] = platform
        else:
            built[name] = _build(model, where, _mapping(where, entry), {"name": name})
    return built


@cache
def shipped_entries(file: str, model: type) -> dict[str, Any]:
    """A catalog that comes with the product, by name; services by name and platform. All look-ups share the result."""
    return parse_catalog(shipped_text(file), model, f"catalog/{file}")


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
    """A platform of the shipped catalog, or the only one of a file of the user's own (a name that ends in .yaml).

    CatalogError lists the known ones, or says what is wrong with the file.
    """
    own: PlatformModel | None = _of_file(name, PlatformModel)
    return own or _find("platform", name, shipped_entries("platforms.yaml", PlatformModel))


def _throughput(model: PlatformModel) -> float:
    """What all CPUs of a platform get through, as a multiple of one CPU at 1 GHz with an idle sibling."""
    threads = model.cpus / model.physical_cores
    return model.physical_cores * model.frequency_ghz * (2.0 * model.smt_speed if threads > 1 else 1.0)


def throughput_ratio(home: PlatformModel, target: PlatformModel) -> float:
    """What the cores of `target` get through, as a multiple of those of `home`."""
    return _throughput(target) / _throughput(home)


def scaled_to(service: ServiceModel, home: PlatformModel, target: PlatformModel) -> ServiceModel:
    """A service on a platform where nobody measured it: the same requests, the load scaled with cores and clock.

    On a larger platform a service with a serial part bears what it bears at home: that part is no faster there.
    """
    ratio, why = throughput_ratio(home, target), "cores, clock"
    if service.serial_ms > 0 and ratio > 1.0:
        ratio, why = 1.0, "its serial part does not scale with cores"
    threads = target.cpus if service.threads >= home.cpus else min(service.threads, target.cpus)
    return replace(
        service,
        platform=target.id,
        threads=threads,
        max_load=service.max_load * ratio,
        scaled=f"no load of {service.name} is published for {target.id}: {home.id}'s times {ratio:.3g} ({why})",
    )


def service(name: str, platform_id: str | None = None) -> ServiceModel:
    """A latency-critical service of the shipped catalog on a platform (None: the first on which it was measured),
    or the only one of a file of the user's own.

    The platform may be a file of the user's own as well. Where no load is published for it the load is scaled, and
    `scaled` says how. CatalogError lists what is known.
    """
    own: dict[str, ServiceModel] | None = _of_file(name, ServiceModel)
    deployments = own or _find("LC service", name, shipped_entries("services.yaml", ServiceModel))
    home = next(iter(deployments.values()))
    if platform_id is None:
        return home
    target = platform(platform_id)
    if target.id in deployments:
        return deployments[target.id]
    return scaled_to(home, platform(home.platform), target)


def _of_file(name: str, model: type) -> Any | None:
    """The only entry of a file of the user's own (a name that ends in .yaml), None for a name of the catalog."""
    if not name.endswith((".yaml", ".yml")):
        return None
    entries = load_file(Path(name), model)
    if len(entries) != 1:
        raise CatalogError(f"{name}: {len(entries)} entries ({', '.join(sorted(entries))}), expected a file with one")
    return next(iter(entries.values()))


def deployments(name: str) -> dict[str, ServiceModel]:
    """A service on every platform where it was measured."""
    return dict(_find("LC service", name, shipped_entries("services.yaml", ServiceModel)))


def fitted_targets(name: str) -> frozenset[str]:
    """Platforms on which the target of a service of the shipped catalog follows from its max load, the knee."""
    text = shipped_text("services.yaml")
    deployed = cast(dict[str, Any], yaml.safe_load(text))[name]["deployments"]
    return frozenset(place for place, entry in deployed.items() if "fitted" in entry["target_ms"])


def job(name: str) -> JobModel:
    """A best-effort job of the shipped catalog or of a file of the user's own; CatalogError lists the known ones."""
    own: JobModel | None = _of_file(name, JobModel)
    return own or _find("BE job", name, shipped_entries("jobs.yaml", JobModel))


def platform_names() -> list[str]:
    """All shipped platforms."""
    return sorted(shipped_entries("platforms.yaml", PlatformModel))


def whole_socket_names() -> list[str]:
    """Shipped platforms that are a socket each, not one of its cache domains (AMD's CCX)."""
    return [name for name in platform_names() if platform(name).domains == 1]


def service_names() -> list[str]:
    """All shipped latency-critical services."""
    return sorted(shipped_entries("services.yaml", ServiceModel))


def job_names() -> list[str]:
    """All shipped best-effort jobs."""
    return sorted(shipped_entries("jobs.yaml", JobModel))
