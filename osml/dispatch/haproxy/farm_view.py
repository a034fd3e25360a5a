"""What a dispatch policy sees of a farm behind a load balancer, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Backend:
    """One server behind the load balancer, now.

    in_service: requests at the server. limit: requests at once that its operator allows (maxconn).
    limit_interfered: the same while it is used under interference; the model has one job a server.
    usable: operator and health checks let it be used. interfered: a fresh signal says so.
    """

    name: str
    in_service: int
    limit: int
    usable: bool = True
    interfered: bool = False
    limit_interfered: int = 1


@dataclass(frozen=True)
class FarmObservation:
    """The farm at one moment. queued: requests that wait in the load balancer, at no server yet."""

    backends: tuple[Backend, ...]
    queued: int

    @property
    def usable(self) -> tuple[Backend, ...]:
        """Backends that a policy may use."""
        return tuple(backend for backend in self.backends if backend.usable)

    @property
    def jobs(self) -> int:
        """The model's number in system: waiting and in service."""
        return self.queued + sum(backend.in_service for backend in self.usable)


@dataclass(frozen=True)
class DispatchDecision:
    """slots: for each usable backend how many requests it may hold at once; 0 takes it out.

    What is in service goes on; a backend that is out gets nothing new and takes nothing from the queue.
    """

    slots: Mapping[str, int]

    @property
    def open(self) -> tuple[str, ...]:
        """Names of the backends that are in."""
        return tuple(name for name, slots in self.slots.items() if slots > 0)
