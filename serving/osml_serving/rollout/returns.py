"""Canaries that returned: kept in the experience store, so that all replicas and the next start know it."""

from __future__ import annotations

from collections.abc import Mapping

from osml.experiences.outcome import BusyError, CanaryReturn, StoreError
from osml.experiences.writer import Writer


class Returns:
    """Why each canary returned. Without a store, and while it is away, this process knows only its own verdicts."""

    def __init__(self, writer: Writer | None) -> None:
        self._writer = writer
        self._known: dict[str, CanaryReturn] = {}
        self._unsaved: list[CanaryReturn] = []

    @property
    def known(self) -> Mapping[str, CanaryReturn]:
        """By name of the canary."""
        return self._known

    def add(self, one: CanaryReturn) -> None:
        """A canary returns, from now on; it is saved by the next `exchange`."""
        self._known[one.canary] = one
        self._unsaved.append(one)

    async def exchange(self) -> list[CanaryReturn]:
        """Save what is new here; returns what other replicas, or runs before, decided. Never raises."""
        if self._writer is None:
            return []
        try:
            while self._unsaved:
                one = self._unsaved[0]
                await self._writer.call(lambda store, one=one: store.add_return(one))
                self._unsaved.pop(0)
            found = await self._writer.call(lambda store: store.returns())
        except (StoreError, BusyError):
            return []  # the writer tells; the next exchange tries again
        new = [one for one in found if one.canary not in self._known]
        self._known.update({one.canary: one for one in new})
        return new
