"""Canaries that returned: kept in the experience store, so that all replicas and the next start know it."""

from __future__ import annotations

from collections.abc import Mapping

from osml.experiences.outcome import BusyError, CanaryReturn, StoreError
from osml.experiences.writer import Writer
from osml_serving.log import Log


class Returns:
    """Why each canary returned.

    `complete` is False until the store was read once: until then a canary may have returned without our knowing it.
    Without a store this process knows only its own verdicts: `shared` is False where it is one of several workers.
    """

    def __init__(self, writer: Writer | None, log: Log, *, workers: int = 1) -> None:
        self.shared = writer is not None or workers == 1
        self._writer = writer
        self._log = log
        self._known: dict[str, CanaryReturn] = {}
        self._unsaved: list[CanaryReturn] = []
        self._fails = False
        self.complete = writer is None

    @property
    def known(self) -> Mapping[str, CanaryReturn]:
        """By name of the canary."""
        return self._known

    @property
    def unsaved(self) -> bool:
        """True where a verdict of this process is not in the store yet."""
        return bool(self._unsaved)

    def add(self, one: CanaryReturn) -> None:
        """A canary returns, from now on; it is saved by the next `exchange`."""
        self._known[one.canary] = one
        if self._writer is not None:
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
        except (StoreError, BusyError) as error:
            if not self._fails:
                what = "a return is not saved" if self._unsaved else "canaries that returned are not known"
                self._log.event("error", "canary", f"the experience store does not answer, {what}: {error!r}")
            self._fails = True
            return []
        self._fails = False
        self.complete = True
        new = [one for one in found if one.canary not in self._known]
        self._known.update({one.canary: one for one in new})
        return new
