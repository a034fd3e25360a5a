# Not installed for the quick check, so untyped here. `make test-training` checks with the real torch.
from typing import Any, TypeAlias

from torch import nn as nn

Tensor: TypeAlias = Any

def __getattr__(name: str) -> Any: ...
