"""onnxruntime, told to send nothing: its builds report use to their maker unless the environment forbids it."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

TELEMETRY = "ORT_DISABLE_TELEMETRY"
"""Read once, when the library is loaded."""


def load_onnx_runtime() -> Any:
    """The module. Raises ImportError where it is not installed."""
    os.environ.setdefault(TELEMETRY, "1")
    return import_module("onnxruntime")
