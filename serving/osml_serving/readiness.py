"""Readiness: the server takes decisions after its warm-up, while its default policy decides, until it stops."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import msgspec
from prometheus_client import Gauge

from osml.base.failure import Failure
from osml_serving.decider import Decider, PolicyFailedError
from osml_serving.errors import ApiError
from osml_serving.example import EXAMPLE
from osml_serving.log import Log


class Readiness:
    """`reason` says why the server is not ready; None means ready. Liveness does not depend on it.

    `blocked` is what the warm-up found. `default_fault` says why the default policy decides nothing at this moment: the
    process of a slow policy may end at any time.
    """

    def __init__(self, gauge: Gauge, default_fault: Callable[[], str | None] = lambda: None) -> None:
        self.blocked: str | None = "the server is starting: the warm-up of the policies is not complete"
        self.draining = False
        self._default_fault = default_fault
        gauge.set_function(lambda: self.reason is None)

    @property
    def reason(self) -> str | None:
        """Why the server is not ready."""
        if self.draining:
            return "the server is stopping"
        return self.blocked or self._default_fault()

    def warm_up(self, decider: Decider, log: Log) -> None:
        """Let every policy decide once, so that the first node does not pay for imports and caches.

        The server is ready where its default policy decides. Another policy that fails is unavailable: a library that
        one optional policy needs must not keep all nodes without decisions.
        """
        blocked: str | None = None
        for policy in list(decider.policies):
            if policy in decider.slow:  # its own process warms it up
                continue
            try:
                decider(msgspec.structs.replace(EXAMPLE, policy=policy))
            except (ApiError, PolicyFailedError) as error:
                reason = f"policy '{policy}' failed in the warm-up: {error}"
                detail = error.detail if isinstance(error, PolicyFailedError) else traceback.format_exc()
                log.fault("warm_up", reason, detail)
                if policy == decider.default_policy:
                    blocked = reason
                else:
                    decider.withdraw(policy, str(error.__cause__ if isinstance(error.__cause__, Failure) else error))
        self.blocked = blocked

    def drain(self) -> None:
        """Tell load balancers to look elsewhere; requests that still come are answered. Safe in a signal handler."""
        self.draining = True
