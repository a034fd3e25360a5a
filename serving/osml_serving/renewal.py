"""Reads the token file and the certificate again when their files change: no restart, and no signal."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from osml_serving.guards.tokens import stamp_of
from osml_serving.log import Log

EVERY_S = 2.0


Stamps = Mapping[Path, tuple[int, ...] | None]


def stamps_of(files: Iterable[Path]) -> Stamps:
    """The files as they are now; taken before a file is read, so that a change while it is read is seen."""
    return {file: stamp_of(file) for file in files}


class Watched(NamedTuple):
    """Files, what reads them again (it reports its own errors), and their stamps before they were first read."""

    files: Sequence[Path]
    reload: Callable[[], None]
    first: Stamps


async def watch(watched: Sequence[Watched], log: Log, every_s: float = EVERY_S) -> None:
    """Reload what has changed, until cancelled."""
    seen: list[Stamps] = [{file: one.first.get(file) for file in one.files} for one in watched]
    while True:
        await asyncio.sleep(every_s)
        for index, one in enumerate(watched):
            now = stamps_of(one.files)
            if now != seen[index]:
                seen[index] = now
                try:
                    one.reload()
                except Exception as error:  # a file from outside must not end the watch over the others
                    names = ", ".join(str(file) for file in one.files)
                    log.fault("reload", f"{names} was not reloaded: {error!r}", traceback.format_exc())
