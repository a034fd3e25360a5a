# Not installed for the quick check, so untyped here. `make test-training` checks with the real ray.
from typing import Any

def __getattr__(name: str) -> Any: ...
