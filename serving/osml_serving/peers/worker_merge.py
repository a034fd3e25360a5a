"""The rollout as all workers of a server see it: they have one rollout file, and each judges its own nodes."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

import msgspec

from osml_serving.api.messages import RolloutDocument
from osml_serving.peers.merge import MERGES, Merge
from osml_serving.rollout.judge import ArmFigures
from osml_serving.rollout.rollout import CanaryState
from osml_serving.shadow.tally import ShadowSums

_rollout = msgspec.json.Decoder(RolloutDocument)
STATES = ("returned", "runs", "waits")  # one worker is enough for the first that applies


def merge_rollout(own: bytes, others: Sequence[bytes], _silent: int, _query: str) -> bytes:
    """Canaries and shadow policies with the figures of all workers; the plan is that of the worker that is asked."""
    document = _rollout.decode(own)
    documents = [document]
    for body in others:
        with contextlib.suppress(msgspec.MsgspecError):
            documents.append(_rollout.decode(body))
    document.canaries = [
        _canary([canary for one in documents for canary in one.canaries if canary.name == name])
        for name in [canary.name for canary in document.canaries]
    ]
    shadows: dict[str, list[ShadowSums]] = {}
    for one in documents:
        for sums in one.shadows:
            shadows.setdefault(sums.policy, []).append(sums)
    document.shadows = [_sums(sums) for _, sums in sorted(shadows.items())]
    document.lost = sum(one.lost for one in documents)
    return msgspec.json.encode(document)


def _canary(seen: Sequence[CanaryState]) -> CanaryState:
    """One canary, as each worker sees it. The first to take it back says why.

    Else one worker that can judge is enough. A worker that nobody asks does not know whether it could.
    """
    first = min(seen, key=lambda one: (STATES.index(one.state) if one.state in STATES else len(STATES), one.since or 0))
    arms = (_arm([one.canary for one in seen]), _arm([one.others for one in seen]))
    if first.state == "returned":
        why = first.why
    else:
        busy = [one for one in seen if one.canary.seconds + one.others.seconds > 0] or seen
        why = None if any(one.why is None for one in busy) else busy[0].why
    return msgspec.structs.replace(first, canary=arms[0], others=arms[1], why=why)


def _arm(arms: Sequence[ArmFigures]) -> ArmFigures:
    return dataclasses.replace(
        arms[0],
        nodes=sum(one.nodes for one in arms),
        seconds=sum(one.seconds for one in arms),
        missed=_mean([(one.missed_nodes, one.missed) for one in arms]),
        e_s=_mean([(one.e_s_nodes, one.e_s) for one in arms]),
        unmeasured=_mean([(one.nodes, one.unmeasured) for one in arms]),
        failures=sum(one.failures for one in arms),
        missed_nodes=sum(one.missed_nodes for one in arms),
        e_s_nodes=sum(one.e_s_nodes for one in arms),
    )


def _mean(parts: Sequence[tuple[int, float | None]]) -> float | None:
    """The mean over nodes, of means over the nodes of each worker."""
    known = [(nodes, mean) for nodes, mean in parts if mean is not None]
    n_nodes = sum(nodes for nodes, _ in known)
    return sum(nodes * mean for nodes, mean in known) / n_nodes if n_nodes else None


def _sums(of_workers: Sequence[ShadowSums]) -> ShadowSums:
    total = ShadowSums(of_workers[0].policy)
    for name in ShadowSums.__struct_fields__[1:]:  # all but the policy add up
        setattr(total, name, sum(getattr(one, name) for one in of_workers))
    return total


MERGES_OF_WORKERS: dict[str, Merge] = {**MERGES, "/v1/rollout": merge_rollout}
"""As MERGES, and what replicas do not have in common: each may have a rollout file of its own."""
