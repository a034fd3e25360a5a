"""What `osml learn train` and `osml learn models` need beside the package."""

from __future__ import annotations

from importlib.util import find_spec

from osml.base.extras import how_to_install
from osml.base.failure import MachineError

_PACKAGES = ("torch", "onnx", "onnxruntime")


def need(*packages: str) -> None:
    """MachineError where one of these packages (by default those of training) is not installed."""
    missing = [name for name in packages or _PACKAGES if find_spec(name) is None]
    if missing:
        raise MachineError(
            f"this command needs {', '.join(missing)}: {how_to_install('train', package='osml-training')}"
        )
