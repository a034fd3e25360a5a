"""The commands that data sets name as the program that made them."""

from __future__ import annotations

COLLECT = "osml learn data collect"
COLLECT_LIVE = "osml learn data collect --live"
SWEEP_LIVE = "osml learn data sweep"
IMPORT_OSML = "osml learn data import-osml"
RUN_LIVE = "osml run live"
AGENT_RECORD = "osml-agent run --record"
PROGRAMS = (COLLECT, COLLECT_LIVE, SWEEP_LIVE, IMPORT_OSML, RUN_LIVE, AGENT_RECORD)

_EARLIER = {"data": "learn data", "live": "run live"}
"""Groups of commands by their earlier names, which published data sets have."""


def current_program(program: str) -> str:
    """The name of today for a program that an older data set names."""
    name, _, rest = program.partition(" ")
    group, _, arguments = rest.partition(" ")
    if name != "osml" or group not in _EARLIER:
        return program
    return " ".join(part for part in (name, _EARLIER[group], arguments) if part)
