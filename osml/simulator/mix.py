"""A mix in one line of text: `moses=0.4,img-dnn=0.6,be:stream`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from osml.base.failure import InputError
from osml.simulator import catalogs
from osml.simulator.engine import MAX_LOAD
from osml.simulator.models import on_platform
from osml.simulator.state import Node, NodeInputError

_JOB = "be:"
_EXAMPLE = "moses=0.4,img-dnn=0.6,be:stream"
_MAX_CHARS = 4096


@dataclass(frozen=True)
class Mix:
    """Who is on a node: loads of LC services as fractions of max load, in the order given, and BE jobs."""

    loads: dict[str, float]
    jobs: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The text that parses to this mix."""
        return ",".join(
            [*(f"{name}={_text_of(load)}" for name, load in self.loads.items()), *(_JOB + name for name in self.jobs)]
        )


def _text_of(load: float) -> str:
    """As short as it can be read back: 0.4, 1, 0.1234567."""
    return repr(float(load)).removesuffix(".0")


def loads_on(node: Node, loads: Mapping[str, float]) -> dict[str, float]:
    """Loads by the names that services have on their node: of a file of the user's own the name is inside it."""
    return {service.name: load for service, load in zip(node.services, loads.values(), strict=True)}


def checked_load(text: str, where: str) -> float:
    """A load above 0 and up to MAX_LOAD; InputError names `where` it was given."""
    try:
        load = float(text)
    except ValueError:
        load = math.nan
    if not 0 < load <= MAX_LOAD:
        raise InputError(
            f"{where} is '{text}', expected a fraction of max load above 0 and up to {MAX_LOAD:g}, such as 0.4"
        )
    return load


def parse_mix(text: str) -> Mix:
    """Read a mix: NAME=LOAD for an LC service, be:NAME for a BE job, separated by commas.

    Raises InputError, naming the entry, for anything else; names are looked up later (`node_of`).
    """
    if len(text) > _MAX_CHARS:
        raise InputError(f"mix has {len(text)} characters, expected at most {_MAX_CHARS}")
    loads: dict[str, float] = {}
    jobs: list[str] = []
    for number, part in enumerate(text.split(","), start=1):
        entry = part.strip()
        name, equals, load = (piece.strip() for piece in entry.partition("="))
        is_job = entry.startswith(_JOB)
        name = name.removeprefix(_JOB) if is_job else name
        if not name or bool(equals) is is_job:
            raise InputError(f"mix: entry {number} is '{entry}', expected NAME=LOAD or be:NAME, as in {_EXAMPLE}")
        if name in loads or name in jobs:
            raise InputError(f"mix: '{name}' occurs twice, expected each service and job once")
        if is_job:
            jobs.append(name)
        else:
            loads[name] = checked_load(load, f"mix: load of '{name}'")
    return Mix(loads, tuple(jobs))


def node_of(mix: Mix, platform_id: str) -> Node:
    """The node of the shipped catalogs; InputError lists what is known where a name is not."""
    try:
        platform = catalogs.platform(platform_id)
        services = tuple(catalogs.service(name, platform_id) for name in mix.loads)
        jobs = tuple(on_platform(catalogs.job(name), platform) for name in mix.jobs)
        return Node(platform, services, jobs)
    except (catalogs.CatalogError, NodeInputError) as error:
        raise InputError(str(error)) from None


def scaling_notes(node: Node) -> list[str]:
    """How loads were found that nobody published for this platform, one sentence a service."""
    return [service.scaled for service in node.services if service.scaled]
