"""Services that start and stop beside the others: the agent reports those that are there, and forgets the partition."""

import dataclasses

import pytest
from msgspec.structs import replace

from osml.decide.registry import policy_names
from osml.domain import Observation, Service, partition_error
from tests.kit.toy_node import Tenant, ToyNode, demo_tenants

# As the agent sees a day: all, one gone, two gone, a stranger, one alone, all again.
LATE = Tenant("late", load=1.0)
DAY = [(0, 1, 2, 3), (0, 1, 3), (1, 3), (1, 3, 4), (1,), (3,), (0, 1, 2, 3)]


def unmeasured(tenant: Tenant) -> Tenant:
    """Who just came has measured nothing yet."""
    return dataclasses.replace(tenant, measured=False)


class PassingServices(ToyNode):
    """A node as the agent reports it: after a change of the services the partition is unknown for one interval."""

    def set_services(self, tenants: list[Tenant]) -> None:
        self.changed = [tenant.name for tenant in tenants] != [tenant.name for tenant in self.tenants]
        self.tenants = tenants

    def observe(self, **changes: object) -> Observation:
        observation = super().observe(**changes)
        names = {service.name for service in observation.services}
        there = [one for one in observation.assignments if one.service in names]
        partition = None if self.changed else observation.partition
        self.changed = False
        return replace(observation, partition=partition, assignments=there)

    changed = False

    def measure(self, tenant: Tenant) -> Service:
        fresh = self.decision is not None and self.decision.partition.cores_of(tenant.name) == 0
        return super().measure(unmeasured(tenant) if fresh else tenant)


@pytest.mark.parametrize("policy", policy_names())
def test_every_policy_divides_the_node_among_those_who_are_there(policy: str) -> None:
    everybody = [*demo_tenants(), LATE]
    node = PassingServices([], policy=policy, seed=5)
    for present in [*DAY, *reversed(DAY)]:
        node.set_services([everybody[index] for index in present])
        names = [everybody[index].name for index in present]
        for _ in range(4):
            decision = node.step()
            assert [one.service for one in decision.assignments] == names
            assert {owner for region in decision.partition.regions for owner in region.owners} <= set(names)
            assert partition_error(decision.partition, node.platform(), names) is None


@pytest.mark.parametrize("policy", ["parties", "osml:formula"])
def test_what_a_service_had_is_used_when_it_has_gone(policy: str) -> None:
    quiet, *_, job = demo_tenants()
    node = PassingServices([quiet, job], policy=policy, seed=5)
    for _ in range(30):
        node.step()
    node.set_services([job])
    for _ in range(5):
        decision = node.step()
    assert decision.partition.cores_of(job.name) == node.cores
