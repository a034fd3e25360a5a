"""Things that are described by one module each: all of a folder, and one by its name."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, TypeVar

from osml.base.failure import InputError


class Named(Protocol):
    """What has a name."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


N = TypeVar("N", bound=Named)


def described_in(package: str, attribute: str, kind: type[N]) -> dict[str, N]:
    """What the modules of a package have under this attribute, by name, in the order of the names."""
    folder = import_module(package)
    modules = [import_module(f"{package}.{found.name}") for found in pkgutil.iter_modules(folder.__path__)]
    known = [found for module in modules if isinstance(found := getattr(module, attribute, None), kind)]
    return {one.name: one for one in sorted(known, key=lambda one: one.name)}


def the_one(what: str, name: str, known: Mapping[str, N]) -> N:
    """The one of that name. Raises InputError that lists the known ones."""
    if name not in known:
        raise InputError(f"{what} '{name}' is unknown, expected one of {', '.join(known)}")
    return known[name]
