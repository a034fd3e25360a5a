"""The server's experience store, opened in its own thread: a server is ready before its database is."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from osml.experiences.writer import Writer
from osml_serving.log import Log
from osml_serving.metrics import Metrics
from osml_serving.settings import Settings

if TYPE_CHECKING:
    from osml.experiences.store import Store

MAX_WAITING = 64


def make_writer(settings: Settings, log: Log, metrics: Metrics) -> Writer | None:
    """A writer for the store of the settings, not started; None for `none`. Raises InputError for a wrong address."""
    setting = settings.store
    if setting == "none":
        metrics.without_store()
        return None
    if setting != "sqlite":
        _check(setting)

    def open_store() -> Store:
        from osml.experiences.address import open_engine, store_url, told  # noqa: PLC0415 - half a second
        from osml.experiences.store import Store  # noqa: PLC0415

        url = store_url(setting)
        assert url is not None  # noqa: S101 - "none" is above
        store = Store(open_engine(url, writes=True), settings.store_rows, settings.store_days)
        limit = f"its limit is {settings.store_rows} experiences"
        log.event("info", "experiences", f"the experience store is {told(url)}; {limit}")
        return store

    def tell(fault: str | None) -> None:
        metrics.store_up.set(fault is None)
        if fault is not None:
            log.event("error", "experience_store", f"{fault}; decisions continue")
        else:
            gc.collect()
            gc.freeze()  # what was imported for it stays, too (server.py)

    # Requests that wait hold a place among those in flight: most places are for decisions.
    return Writer(open_store, tell, size=max(1, min(MAX_WAITING, settings.max_in_flight // 4)))


def _check(setting: str) -> None:
    from osml.experiences.address import store_url  # noqa: PLC0415

    store_url(setting)
