"""What PARTIES knows of memory (ASPLOS 2019, sections 4.2.3 to 4.3): slack, and who would be killed without it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from osml.allocation.division import Division
from osml.domain import Observation, Service

SLACK_MIB = 1024.0  # less memory slack than 1 GB counts as none
KEPT = 1.125  # times what is resident: the agent refuses less (levers.memory in docs/reference/agent-config.md)
TEST_S = 1.0  # disk use is looked at for one second at the start of each application


class DiskTest(Struct, frozen=True):
    """Whether a service read from its disk in its first second; None where nobody could tell."""

    since_s: float
    reads: bool | None = None


def tested(observation: Observation, before: Mapping[str, DiskTest]) -> dict[str, DiskTest]:
    """The tests of the services that are here, with what this interval showed of those who are new."""
    return {service.name: _tested(service, observation, before.get(service.name)) for service in observation.services}


def _tested(service: Service, observation: Observation, test: DiskTest | None) -> DiskTest:
    began_s = observation.time_s - observation.interval_s
    if test is None or test.since_s > observation.time_s:  # the clock of the node started again
        test = DiskTest(began_s)
    reads = service.counters.disk_iops
    if began_s >= test.since_s + TEST_S or reads is None:
        return test
    return DiskTest(test.since_s, bool(test.reads) or reads > 0)


def kept_mib(observation: Observation) -> dict[str, float]:
    """MiB that each service has to keep, where that is known."""
    resident = {service.name: service.counters.rss_mib for service in observation.services}
    return {name: KEPT * mib for name, mib in resident.items() if mib is not None}


class Memory:
    """Memory of the LC services during one decision."""

    def __init__(self, observation: Observation, division: Division, tests: Mapping[str, DiskTest]) -> None:
        self.now_s, self.division, self.tests = observation.time_s, division, tests
        self.services = {s.name: s for s in observation.services if s.kind == "lc"}

    def slack_mib(self, name: str) -> float | None:
        """Allocated beyond what it has to keep; None where memory is not divided or not measured."""
        holding, used_mib = self.division.holdings.get("memory"), self.services[name].counters.rss_mib
        if holding is None or holding.scale is None or used_mib is None:
            return None
        return holding.scale.amount(holding.own.get(name, 0)) - KEPT * used_mib

    def short(self, name: str) -> bool:
        """True where storage may be what is missing: memory (almost) saturated or not known, or the disk fully in use.

        The disk counts because resident memory leaves out the page cache, which fills whatever a container may have.
        """
        return self._full(name) or self._disk_in_use(name)

    def may_lose(self, name: str) -> bool:
        """False for what dies without its memory: an application in memory (or maybe) that has none to spare."""
        return self._in_memory(name) is False or not self._full(name)

    def victims(self, by_slack: list[str]) -> list[str]:
        """Who gives memory: the largest memory slack first; where nobody has 1 GB, the largest latency slack."""
        spare = {name: slack for name in by_slack if (slack := self.slack_mib(name)) is not None and slack > SLACK_MIB}
        if spare:
            return sorted(spare, key=lambda name: (-spare[name], name))
        return [name for name in by_slack if self.may_lose(name)]

    def _full(self, name: str) -> bool:
        slack_mib = self.slack_mib(name)
        return slack_mib is None or slack_mib < SLACK_MIB

    def _disk_in_use(self, name: str) -> bool:
        holding, reads = self.division.holdings.get("disk"), self.services[name].counters.disk_iops
        if holding is None or holding.scale is None or reads is None or not holding.own.get(name):
            return False
        return holding.scale.amount(holding.own[name]) - reads < holding.scale.step

    def _in_memory(self, name: str) -> bool | None:
        return in_memory(self.tests[name], self.now_s)


def in_memory(test: DiskTest, now_s: float) -> bool | None:
    """True for an application that did not read at all in its first second; None before that, and where unknown."""
    return None if now_s - test.since_s < TEST_S - 1e-9 or test.reads is None else not test.reads
