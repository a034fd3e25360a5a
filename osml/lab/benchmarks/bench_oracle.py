"""The exact best partition on 36 x 20: mixes of three that fit, that don't, and at the edge; one whole node settled."""

from __future__ import annotations

import numpy as np

from osml.lab.benchmarks.harness import rate, seconds, take
from osml.simulator.mix import node_of, parse_mix
from osml.simulator.oracle import best_partition
from osml.simulator.oracle.partitions import Evaluator

_MIXES = {
    "feasible": "moses=0.2,img-dnn=0.2,xapian=0.2",
    "infeasible": "moses=1.5,img-dnn=1.5,xapian=1.5",
    "edge": "login=0.9,masstree=0.6,mongodb=1",
}
_NODES = 200


def run() -> None:
    """Time whole searches and single nodes; print how many nodes each search settled."""
    for name, text in _MIXES.items():
        mix = parse_mix(text)
        node = node_of(mix, "e5-2697v4")
        take(
            f"oracle_3_services_{name}",
            "s",
            seconds(lambda node=node, mix=mix: best_partition(node, mix.loads)),
            runs=5,
        )
        answer = best_partition(node, mix.loads)
        print(f"  {text}: feasible {answer.outcome.feasible}, {answer.nodes} whole nodes, {answer.cells} bounds")
    mix = parse_mix(_MIXES["feasible"])
    evaluate = Evaluator(node_of(mix, "e5-2697v4"), mix.loads)
    partition = np.array([[12, 6], [12, 7], [12, 7], [0, 0]])

    def settle() -> None:
        for _ in range(_NODES):
            evaluate(partition)

    take("oracle_whole_nodes", "nodes/s", rate(_NODES, settle))
