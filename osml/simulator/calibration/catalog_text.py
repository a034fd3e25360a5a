"""Writes the catalog of services with fitted parameters in the place of the old ones; everything else stays."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, cast

import yaml

from osml.simulator.models import MemoryBehaviour, ServiceModel

_DIGITS = 5


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _set(entry: dict[str, Any], values: dict[str, float]) -> None:
    """Replace what is fitted, and not assumed, in one level of the catalog."""
    for name, value in values.items():
        if name in entry and "fitted" in entry[name] and entry[name].get("note") != "assumed":
            entry[name]["fitted"] = _rounded(value)


def _numbers(service: ServiceModel) -> dict[str, float]:
    values = {field.name: getattr(service, field.name) for field in fields(service)}
    values |= {field.name: getattr(service.memory, field.name) for field in fields(MemoryBehaviour)}
    return {name: value for name, value in values.items() if isinstance(value, float)}


def _line(name: str, entry: dict[str, Any], indent: int) -> str:
    parts: list[str] = []
    for key, value in entry.items():
        text = f'"{value}"' if key == "source" else "true" if value is True else str(value)
        parts.append(f"{key}: {text}")
    return f"{' ' * indent}{name}: {{{', '.join(parts)}}}"


def with_fitted(text: str, fitted: dict[str, dict[str, ServiceModel]]) -> str:
    """The text of a service catalog with the parameters of `fitted` (service -> platform -> model)."""
    head = text[: text.index("\n\n") + 1]
    document = cast(dict[str, dict[str, Any]], yaml.safe_load(text))
    blocks: list[str] = []
    for name, entry in document.items():
        deployments = cast(dict[str, dict[str, Any]], entry.pop("deployments"))
        models = fitted.get(name)
        if models is not None:
            _set(entry, _numbers(next(iter(models.values()))))  # a fit gives all deployments one behaviour
        lines = [f"{name}:", *(_line(key, value, 2) for key, value in entry.items()), "  deployments:"]
        for platform, deployment in deployments.items():
            if models is not None:
                _set(deployment, _numbers(models[platform]))
            lines += [f"    {platform}:", *(_line(key, value, 6) for key, value in deployment.items())]
        blocks.append("\n".join(lines))
    return head + "\n" + "\n\n".join(blocks) + "\n"
