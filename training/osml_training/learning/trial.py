"""What learning from a store gains, tried out on virtual nodes: `python -m osml_training.learning.trial --help`.

Nodes of a platform on which an explorer moves services about report what came of it; the shipped Model-C of another
platform learns on from that. All of it is simulated.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer

from osml.allocation.policy import Plan
from osml.domain import Experience, Observation, Outcome, Partition, Reason, Region
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.mix import node_of, parse_mix

JOB = "stream"
SERVICES = ("moses", "img-dnn", "xapian", "masstree", "sphinx", "specjbb", "memcached", "nginx", "login", "ads")
ANEW = 60  # intervals, then from somewhere else


class ExplorerState(msgspec.Struct):
    """All that it remembers."""

    seed: int


class Explorer:
    """Moves one service an interval by up to two cores and ways, at random; the job `stream` has what is left.

    `seen` are the observations, in order.
    """

    name, version, State = "explorer", 1, ExplorerState

    def __init__(self) -> None:
        self.seen: list[Observation] = []

    def initial(self, observation: Observation, seed: int) -> ExplorerState:
        """Its seed."""
        del observation
        return ExplorerState(seed)

    def decide(self, observation: Observation, state: ExplorerState) -> tuple[Plan, ExplorerState]:
        """Somewhere near, or every minute anywhere."""
        self.seen.append(observation)
        rng = np.random.default_rng([state.seed, observation.seq])
        lc = [service.name for service in observation.services if service.kind == "lc"]
        platform, before = observation.platform, observation.partition
        have = platform.cores, platform.ways or 0
        if before is None or observation.seq % ANEW == 0:
            cells = {n: [int(rng.integers(1, most // (len(lc) + 1) + 1)) for most in have] for n in lc}
        else:
            cells = {n: [before.cores_of(n), before.ways_of(n)] for n in lc}
            mine = cells[lc[int(rng.integers(len(lc)))]]
            for k in range(2):
                spare = have[k] - 1 - sum(cell[k] for cell in cells.values())
                mine[k] = max(1, mine[k] + min(int(rng.integers(-2, 3)), spare))
        regions = [Region([name], *cell) for name, cell in cells.items()]
        rest = [have[k] - sum(cell[k] for cell in cells.values()) for k in range(2)]
        return Plan(Partition([*regions, Region([JOB], *rest)]), [Reason("at random")]), state


def explore(mix: str, platform: str, seconds: int, seed: int, node: str) -> list[Experience]:
    """What the agent of a virtual node would report in so many seconds. Same seed, same experiences."""
    policy, parsed = Explorer(), parse_mix(mix)
    loop = ClosedLoop(node_of(parsed, platform), parsed.loads, policy, seed=seed)
    decisions = [interval.decision for interval in loop.run(seconds + 1)][1:]
    change = msgspec.structs.replace
    experiences: list[Experience] = []
    for before, decision, after in zip(policy.seen, decisions, policy.seen[1:], strict=False):
        if decision is None:
            continue
        outcome = Outcome(seq=decision.seq, status="applied")
        experiences.append(
            Experience(
                before=change(before, node=node, policy_state=None),
                decision=change(decision, node=node, policy_state=None),
                after=change(after, node=node, policy_state=None, outcome=outcome),
            )
        )
    return experiences


def some_mix(seed: int) -> str:
    """Two or three services at 20 to 60 % of their max load, and the job."""
    rng = np.random.default_rng([seed, 11])
    names = rng.choice(SERVICES, size=int(rng.integers(2, 4)), replace=False)
    return ",".join([*(f"{name}={rng.uniform(0.2, 0.6):.2f}" for name in names), f"be:{JOB}"])


def trial(platform: str, champion_of: str, nodes: int, seconds: int, seed: int) -> dict[str, Any]:
    """Let the Model-C of one platform learn from experiences of another, as `osml learn train c --online` does."""
    from osml.experiences.address import open_engine, store_url  # noqa: PLC0415
    from osml.experiences.store import Store  # noqa: PLC0415
    from osml.predictors import find_model, models_folder, read_metadata  # noqa: PLC0415 - torch takes seconds
    from osml_training.dqn.export import load_qnet, write_q_bundle  # noqa: PLC0415
    from osml_training.export.bundle import entry_of  # noqa: PLC0415
    from osml_training.export.publish import add_to_manifest  # noqa: PLC0415
    from osml_training.learning.job import learn  # noqa: PLC0415
    from osml_training.learning.promotion import LearnJob  # noqa: PLC0415

    runs = [explore(some_mix(seed + k), platform, seconds, seed + k, f"node-{k}") for k in range(nodes)]
    experiences = [experience for together in zip(*runs, strict=True) for experience in together]  # as they come in
    shipped = find_model(models_folder(), "c", champion_of)
    with tempfile.TemporaryDirectory() as scratch:
        url, models = f"sqlite:///{scratch}/experiences.db", Path(scratch) / "models"
        address = store_url(url)
        assert address is not None  # noqa: S101 - it is one
        store = Store(open_engine(address, writes=True))
        for first in range(0, len(experiences), 200):
            store.add(experiences[first : first + 200])
        store.close()
        metadata = msgspec.structs.replace(read_metadata(shipped), name="champion", platforms=[platform])
        write_q_bundle(load_qnet(shipped), metadata, models / metadata.name)
        add_to_manifest(models, entry_of(models / metadata.name, metadata))
        return learn(LearnJob(store=url, platform=platform, models=models))


def main(
    platform: Annotated[str, typer.Option(help="Platform of the nodes.")] = "e5-2630v4",
    champion_of: Annotated[str, typer.Option(help="Platform of the shipped Model-C to train further.")] = "e5-2697v4",
    nodes: Annotated[int, typer.Option(help="Number of nodes, each with its own services.")] = 24,
    seconds: Annotated[int, typer.Option(help="Simulated seconds of reports.")] = 900,
    seed: Annotated[int, typer.Option(help="Seed; the same seed gives the same result.")] = 10,
) -> None:
    """Train a Model-C further on simulated experiences; prints the document of `osml learn train c --online`."""
    document = trial(platform, champion_of, nodes, seconds, seed)
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n")


if __name__ == "__main__":
    typer.run(main)
