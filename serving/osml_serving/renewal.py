"""Reads the token file and the certificate again when their files change: no restart, and no signal."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from osml_serving.guards.tokens import stamp_of
from osml_serving.log import Log

EVERY_S = 2.0


class Watched(NamedTuple):
    """Files, and what reads them again; it reports its own errors."""

    files: Sequence[Path]
    reload: Callable[[], None]


async def watch(watched: Sequence[Watched], log: Log, every_s: float = EVERY_S) -> None:
    """Reload what has changed, until cancelled."""
    seen = [_stamps(one) for one in watched]
    while True:
        await asyncio.sleep(every_s)
        for index, one in enumerate(watched):
            now = _stamps(one)
            if now != seen[index]:
                seen[index] = now
                try:
                    one.reload()
                except Exception as error:  # a file from outside must not end the watch over the others
                    names = ", ".join(str(file) for file in one.files)
                    log.fault("reload", f"{names} was not reloaded: {error!r}", traceback.format_exc())


def _stamps(one: Watched) -> list[tuple[int, ...] | None]:
    return [stamp_of(file) for file in one.files]
