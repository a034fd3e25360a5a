"""Does the server take decisions? It does from its warm-up until it is told to stop."""

from __future__ import annotations

import traceback

import msgspec
from prometheus_client import Gauge

from osml_serving.decider import Decider, PolicyFailedError
from osml_serving.errors import ApiError
from osml_serving.example import EXAMPLE
from osml_serving.log import Log


class Readiness:
    """`reason` says why not, None = ready. Liveness is another question: the process answers, whatever this says."""

    def __init__(self, gauge: Gauge) -> None:
        self.reason: str | None = "starting: the policies are not warmed up yet"
        self.draining = False
        gauge.set_function(lambda: self.reason is None)

    def warm_up(self, decider: Decider, log: Log) -> None:
        """Let every policy decide once, so that the first node does not pay for imports and caches."""
        for policy in decider.policies:
            try:
                decider(msgspec.structs.replace(EXAMPLE, policy=policy))
            except (ApiError, PolicyFailedError) as error:
                self.reason = f"policy '{policy}' failed its warm-up: {error}"
                detail = error.detail if isinstance(error, PolicyFailedError) else traceback.format_exc()
                log.fault("warm_up", self.reason, detail)
                return
        if not self.draining:
            self.reason = None

    def drain(self) -> None:
        """Tell load balancers to look elsewhere; requests that still come are answered. Safe in a signal handler."""
        self.draining = True
        self.reason = "stopping"
