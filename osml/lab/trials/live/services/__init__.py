"""The real services: each module of this folder that has a `SERVICE` is one."""

from __future__ import annotations

import contextlib
import pkgutil
from functools import cache
from importlib import import_module

from osml.base.failure import InputError
from osml.lab.trials.live.services.service import LOOPBACK, PREPARED, USER, Service

__all__ = ["LOOPBACK", "PREPARED", "USER", "Service", "service_named", "services", "try_fill"]


@cache
def services() -> dict[str, Service]:
    """All services by name, in the order of their names."""
    modules = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    known = [module.SERVICE for module in modules if isinstance(getattr(module, "SERVICE", None), Service)]
    return {service.name: service for service in sorted(known, key=lambda service: service.name)}


def service_named(name: str) -> Service:
    """The service. Raises InputError that lists the known ones."""
    known = services()
    if name not in known:
        raise InputError(f"service '{name}' is unknown, expected one of {', '.join(known)}")
    return known[name]


def try_fill(service: Service, port: int) -> bool:
    """True where the service answered rightly and has its data now."""
    with contextlib.suppress(OSError):
        service.fill(port)
        return True
    return False
