"""The agent's configuration of the node, changed so that the sweep decides: the rest stays as the operator wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import yaml

from osml.base.failure import InputError

_PATHS = (
    ("state_dir",),
    ("bandwidth", "curve"),
    ("metrics", "textfile"),
    *(("roots", root) for root in ("resctrl", "cgroup", "proc", "sysfs", "docker", "irq")),
    *(("kubelet", file) for file in ("token_file", "ca_file")),
    ("kubelet", "discover", "datagram_directory"),
    *(("kubernetes", file) for file in ("token_file", "ca_file")),
)
"""Relative to the folder of the file, as the agent reads them; `server` is the sweep's own."""

_SERVICE_PATHS = (("match", "pid_file"), ("latency", "file"), ("latency", "datagram"), ("counters", "file"))
_STEPS = ("max_core_step", "max_way_step")


def read_agent_file(file: Path) -> dict[str, Any]:
    """The configuration with absolute paths. InputError where it is no mapping with services."""
    try:
        found: object = yaml.safe_load(file.read_bytes())
    except OSError as error:
        raise InputError(f"--agent-config {file} can't be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise InputError(f"--agent-config {file} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict) or not isinstance(cast("dict[str, Any]", found).get("services"), list):
        raise InputError(f"--agent-config {file} has no list 'services', expected a configuration of osml-agent")
    document = cast("dict[str, Any]", found)
    folder = file.resolve().parent
    for path in _PATHS:
        _absolute(document, path, folder)
    for service in document["services"]:
        for path in _SERVICE_PATHS:
            _absolute(service, path, folder)
    return document


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _absolute(at: object, path: tuple[str, ...], folder: Path) -> None:
    mapping = _mapping(at)
    for key in path[:-1]:
        mapping = _mapping(mapping.get(key))
    if isinstance(mapping.get(path[-1]), str):
        mapping[path[-1]] = str(folder / mapping[path[-1]])


def service_entry(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The entry of the service. InputError where it is not there, has no target, or may only move in small steps."""
    by_name = {str(_mapping(entry).get("name")): _mapping(entry) for entry in document["services"]}
    if name not in by_name:
        raise InputError(f"--service is '{name}', expected one of the configuration: {', '.join(sorted(by_name))}")
    entry = by_name[name]
    if entry.get("class") != "lc":
        raise InputError(f"--service {name} has class {entry.get('class')}, expected lc: only targets have cliffs")
    for other, found in by_name.items():
        for limit in _STEPS:
            if _mapping(found.get("limits")).get(limit) is not None:
                raise InputError(
                    f"limits.{limit} of '{other}' allows small steps only, but a sweep jumps: remove it for the sweep"
                )
    return entry


def for_sweep(document: dict[str, Any], url: str, token_file: Path) -> str:
    """YAML text. Whatever ends the sweep, the agent gives everything back: at its exit, and without decisions."""
    server = {"url": url, "timeout_s": 2.0, "token_file": str(token_file), "experiences": "off"}
    return yaml.safe_dump(
        document | {"server": server, "policy": "sweep", "on_exit": "restore", "fallback": "release"}, sort_keys=False
    )
