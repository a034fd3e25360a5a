"""Does the policy `osml` fall off the cliff? Counts its downward decisions in many runs of the mixes of `osml-302`.

    python -m osml.lab.benchmarks.osml_falls --seeds 14 --out out/bench/osml-falls.json

A downward decision takes cores or ways from a service that met its target; a fall multiplies that service's latency
by five, beyond the target, within two intervals (`lab.bench.judge.falls`). Decisions of one mix are alike, so mixes
count: where none of n mixes has a fall, the share of such mixes is below 3/n with 95 % confidence. Simulated; it takes
minutes, so it is no part of `make bench`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from osml.lab.bench.episode import run_episode
from osml.lab.bench.oracle_policy import Answers
from osml.lab.bench.suites import osml_302
from osml.lab.bench.unit import noise_seed


def count(policy: str, first: int, seeds: int) -> dict[str, Any]:
    """Runs of all mixes with these seeds of the noise: decisions, falls, and which runs had one."""
    scenarios = [scenario for scenario in osml_302.scenarios() if scenario.part == osml_302.MIXES]
    found: dict[str, Any] = {
        "policy": policy,
        "seeds": [first, first + seeds - 1],
        "runs": 0,
        "downward": 0,
        "falls": 0,
    }
    found |= {"converged": 0, "violations_after": 0, "intervals_after": 0, "mixes": len(scenarios), "fallen": []}
    for seed in range(first, first + seeds):
        for scenario in scenarios:
            row = run_episode(scenario, policy, noise_seed(scenario, seed), Answers()).row
            found["runs"] += 1
            found["converged"] += row["converged"]
            found["downward"] += row["downward"]
            found["falls"] += row["cliff_falls"]
            for key in ("violations_after", "intervals_after"):
                found[key] += row[key] if row["converged"] else 0
            if row["cliff_falls"]:
                found["fallen"].append({"mix": scenario.name, "seed": seed, "converged": row["converged"]})
        found["mixes_fallen"] = len({one["mix"] for one in found["fallen"]})
        print(f"seed {seed}: {found['falls']} of {found['downward']} so far", file=sys.stderr)
    return found


def main() -> None:
    """Read the arguments, count, write one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--policy", default="osml")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seeds", type=int, default=14)
    parser.add_argument("--out", type=Path, default=Path("out/bench/osml-falls.json"))
    given = parser.parse_args()
    found = count(given.policy, given.first, given.seeds)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
