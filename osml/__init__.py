"""osml: keeps latency-critical services inside their tail-latency targets on a shared server."""

from importlib.metadata import version

__version__ = version("osml")
