"""From settings to a server that runs."""

from __future__ import annotations

import signal
from collections.abc import Collection, Sequence

from osml.base.failure import InputError
from osml_serving.addresses.place import Place
from osml_serving.decider import installed_decider
from osml_serving.log import Log
from osml_serving.models.watch import make_shelf
from osml_serving.runtime import make_runtime
from osml_serving.server import run
from osml_serving.settings import Settings


def start(settings: Settings, place: Place | None = None) -> None:
    """Serve until told to stop; `place` is that of a worker. Raises Failure."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it serves: it reads all files anyway
    log = Log(settings.log_format, settings.log_level)
    shelf = make_shelf(settings, log)
    decider = installed_decider(settings.policy, settings.seed, shelf, settings.allowed_policies)
    check_policies(settings, decider.policies, decider.unavailable)
    run(make_runtime(settings, decider, log, shelf, place))


def check_policies(settings: Settings, available: Sequence[str], not_allowed: Collection[str]) -> None:
    """Raise InputError for names of policies that are not installed, and a default policy that is not allowed."""
    installed = {*available, *not_allowed}
    for name in settings.allowed_policies or ():
        if name not in installed:
            known = ", ".join(sorted(installed))
            raise InputError(f"--policies (or OSML_POLICIES) has '{name}', expected some of {known}")
    if settings.policy not in available:
        known = ", ".join(available) or "the policies of --policies, which has none"
        raise InputError(f"--policy (or OSML_POLICY) is '{settings.policy}', expected one of {known}")
