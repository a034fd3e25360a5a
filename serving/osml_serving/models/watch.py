"""Searches the model folder every few seconds, outside the event loop."""

from __future__ import annotations

import asyncio
import traceback
from typing import cast

from osml.predictors import models_folder
from osml_serving.log import Level, Log
from osml_serving.metrics import Metrics
from osml_serving.models.shelf import ModelShelf
from osml_serving.settings import Settings


def make_shelf(settings: Settings, log: Log) -> ModelShelf:
    """The shelf of the settings' folder, still empty: the server loads the models, and logs them, at its start."""

    def tell(level: str, message: str) -> None:
        log.event(cast(Level, level), "models", message)

    return ModelShelf(settings.models or models_folder(), tell)


async def watch(shelf: ModelShelf, every_s: float, metrics: Metrics, log: Log) -> None:
    """Exchange models as their folder changes, until cancelled."""
    count(shelf, metrics)
    while True:
        await asyncio.sleep(every_s)
        try:
            if await asyncio.to_thread(shelf.changed) and await asyncio.to_thread(shelf.reload):
                metrics.model_exchanges.inc()
        except Exception as error:  # the models in use stay
            log.fault("models", f"the server cannot read the model folder: {error!r}", traceback.format_exc())
        count(shelf, metrics)


def count(shelf: ModelShelf, metrics: Metrics) -> None:
    """Set the gauges."""
    metrics.models_in_use.set(len(shelf.in_use()))
    metrics.models_refused.set(len(shelf.refused))
