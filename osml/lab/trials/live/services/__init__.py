"""The real services: each module of this folder that has a `SERVICE` is one."""

from __future__ import annotations

import contextlib
from functools import cache

from osml.lab.trials.live.one_a_file import described_in, the_one
from osml.lab.trials.live.services.service import LOOPBACK, PREPARED, USER, Service

__all__ = ["LOOPBACK", "PREPARED", "USER", "Service", "service_named", "services", "try_fill"]


@cache
def services() -> dict[str, Service]:
    """All services by name, in the order of their names."""
    return described_in(__name__, "SERVICE", Service)


def service_named(name: str) -> Service:
    """The service. Raises InputError that lists the known ones."""
    return the_one("service", name, services())


def try_fill(service: Service, port: int) -> bool:
    """True where the service answered rightly and has its data now."""
    with contextlib.suppress(OSError):
        service.fill(port)
        return True
    return False
