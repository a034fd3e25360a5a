"""A policy that decides for each cache domain of a node: pure, as the policy in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from osml.allocation.policy import Plan, Policy, decides_whole_node
from osml.domain import Observation, Reason, Service
from osml.placement.choose import with_homes
from osml.placement.groups import groups_of, with_one_group
from osml.placement.large import too_large
from osml.placement.move import Wanted, wanted_move
from osml.placement.needs import needs_of
from osml.placement.openings import members
from osml.placement.part import merged, seen_in, seen_whole
from osml.placement.settings import DEFAULT, Settings
from osml.placement.sites import Sites, sites_of
from osml.placement.state import Move, PlacementState, Trial, as_of
from osml.placement.undo import after_outcome

VERSION = 2
_VERSIONS = 1_000_000  # more than a policy has: a state says of itself whether it is of a policy alone


class Placed:
    """The policy in every cache domain of a platform, with a state of its own in each.

    Services are placed once, and move where a domain misses targets while another has room.
    """

    def __init__(self, policy: Policy, sites: Sites, settings: Settings = DEFAULT) -> None:
        self.name = policy.name
        self.version = VERSION * _VERSIONS + policy.version
        self.State: type[Any] = PlacementState[policy.State]
        self._policy, self._sites, self._settings = policy, sites, settings

    def initial(self, observation: Observation, seed: int) -> PlacementState[Any]:
        """Nobody is placed yet. A domain's own state is made when its first service comes."""
        return PlacementState(seed=seed, time_s=observation.time_s)

    def decide(self, observation: Observation, state: PlacementState[Any]) -> tuple[Plan, PlacementState[Any]]:
        """The plans of the policy for all domains, as one."""
        before = state.homes
        state = as_of(state, observation, set(self._sites), self._settings.return_s)
        needs = needs_of(observation)
        state, undone = after_outcome(observation, state)
        large, why = too_large(observation, self._sites, state, needs, self._settings)
        state = replace(state, large=large)
        if why is not None:
            return self._whole(observation, state, why)
        homes, said, none = with_homes(observation, self._sites, state.homes, needs)
        if none is not None:
            return self._whole(observation, state, f"the node is divided as a whole: {none}")
        state = _settling(replace(state, homes=homes, whole=None), _changed(state.homes, homes))
        move = wanted_move(observation, self._sites, state, needs, self._settings)
        if move is not None:
            state = _moved(observation, state, move)
            said = [*said, move.reason]
        if state.homes != before:
            state = replace(state, sharing=[])
        return self._by_domain(observation, state, [*undone, *said])

    def _whole(
        self, observation: Observation, state: PlacementState[Any], why: str
    ) -> tuple[Plan, PlacementState[Any]]:
        """One plan for the node: it cannot be divided by domains. Who has a home has it again afterwards."""
        seen = seen_whole(observation)
        inner = self._policy.initial(seen, state.seed) if state.whole is None else state.whole
        plan, inner = self._policy.decide(seen, inner)
        plan = replace(plan, reasons=[Reason(text=why), *plan.reasons])
        return plan, replace(state, whole=inner, inner={}, missed={}, held={}, sharing=[])

    def _by_domain(
        self, observation: Observation, state: PlacementState[Any], said: list[Reason]
    ) -> tuple[Plan, PlacementState[Any]]:
        missed: dict[int, int] = {}
        held: dict[int, int] = {}
        inside = members(observation, state.homes, self._sites)
        room = groups_of(observation).room
        sharing = [] if room is None else list(state.sharing)
        found, full = self._plans(observation, state, inside, sharing)
        while full is not None:  # once more: a sharing domain may need a group that another has taken
            said = [*said, Reason(text=_shares(full, room))]
            sharing.append(full)
            found, full = self._plans(observation, state, inside, sharing)
        for domain, services in inside.items():
            told = domain in found and found[domain][0].infeasible is not None and domain not in sharing
            late = any(map(_misses, services)) or (told and not all(map(_meets, services)))
            missed[domain] = state.missed.get(domain, 0) + 1 if late else 0
            held[domain] = 0 if late else state.held.get(domain, 0) + 1
        plans = {domain: found[domain][0] for domain in inside if domain in found}
        inner = {domain: after for domain, (_, after) in found.items()}
        return merged(plans, said), replace(state, inner=inner, missed=missed, held=held, sharing=sorted(sharing))

    def _plans(
        self,
        observation: Observation,
        state: PlacementState[Any],
        inside: Mapping[int, list[Service]],
        sharing: Sequence[int],
    ) -> tuple[dict[int, tuple[Plan, Any]], int | None]:
        """Plan and state of each domain that has services; and a domain for which no groups are left, so must share.

        Who shares comes first: what is left is for the others.
        """
        n_domains = sum(map(bool, inside.values()))
        groups = groups_of(observation)
        found: dict[int, tuple[Plan, Any]] = {}
        for domain in sorted(inside, key=lambda one: (one not in sharing, one)):
            services = inside[domain]
            if not services:
                continue
            seen = seen_in(self._sites[domain], services, observation, n_domains)
            if domain in sharing:
                seen = replace(seen, platform=with_one_group(seen.platform))
            before = state.inner.get(domain)
            known = self._policy.initial(seen, state.seed + domain) if before is None else before
            found[domain] = self._policy.decide(seen, known)
            if not groups.take(domain, found[domain][0], services) and domain not in sharing:
                return found, domain
        return found, None


def prepared(policy: Policy, observation: Observation) -> tuple[Policy, Observation]:
    """The policy and the observation as they decide: by cache domains where the node can be divided by them."""
    sites = {} if decides_whole_node(policy) else sites_of(observation.platform)
    return (Placed(policy, sites), observation) if sites else (policy, seen_whole(observation))


def _changed(before: Mapping[str, int], now: Mapping[str, int]) -> set[int]:
    """The domains to which a service came, or that it left."""
    moved = [name for name, home in now.items() if before.get(name) != home]
    return {home for name in moved for home in (now[name], before.get(name, now[name]))}


def _moved(observation: Observation, state: PlacementState[Any], wanted: Wanted) -> PlacementState[Any]:
    """The state with the service in its new domain, and what is needed to undo that."""
    both = {wanted.source, wanted.target}
    move = Move(wanted.service, wanted.source, observation.time_s)
    before = {domain: inner for domain, inner in state.inner.items() if domain in both}
    state = replace(
        state,
        homes=state.homes | {wanted.service: wanted.target},
        moves=[*state.moves, move],
        trial=Trial(observation.seq, move, before),
    )
    return _settling(state, both)


def _settling(state: PlacementState[Any], domains: set[int]) -> PlacementState[Any]:
    """Whose services have changed has to show anew what it is worth."""
    return replace(
        state,
        missed={domain: count for domain, count in state.missed.items() if domain not in domains},
        held={domain: count for domain, count in state.held.items() if domain not in domains},
    )


def _shares(domain: int, room: int | None) -> str:
    return f"cache domain {domain}: all its services share the ways, the node has only {room} cache groups"


def _meets(service: Service) -> bool:
    """Whether nobody has to care for it: it is known to meet its target, or is a job."""
    return service.kind != "lc" or (service.slack is not None and service.slack >= 0)


def _misses(service: Service) -> bool:
    return service.kind == "lc" and service.slack is not None and service.slack < 0
