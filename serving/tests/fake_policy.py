"""A policy small enough to see through: cores in turn, one more each interval for the service that state points at.

Run as a program it serves that policy, so that tests can start, kill and restart a real process.
"""

import sys

from osml_serving.decider import Decider
from osml_serving.runtime import make_runtime
from osml_serving.server import run
from osml_serving.settings import load_settings

from osml.domain import Assignment, Decision, Entropy, Observation, Partition, Reason, Region
from osml.failure import Failure


class Refused(Exception):  # noqa: N818 - stands in for RequestError
    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


def decide(observation: Observation, default_policy: str = "turns", seed: int = 0) -> Decision:
    """One core and way each; the rest goes to service number `state`, which moves on with each interval."""
    policy = observation.policy or default_policy
    if policy == "broken":
        raise RuntimeError("this policy is broken")
    if policy not in ("turns", "greedy"):
        raise Refused(f"policy '{policy}' is unknown; known are greedy, turns", "policy")
    state = observation.policy_state or str(seed)
    if not state.isdigit():
        raise Refused("policy_state was changed on its way", "policy_state")
    names = [service.name for service in observation.services]
    turn = int(state) % len(names)
    platform = observation.platform
    spare = 1000 if policy == "greedy" else platform.cores - len(names)
    ways = platform.ways or 0
    regions = [
        Region(owners=[name], cores=1 + (spare if index == turn else 0), ways=ways // len(names))
        for index, name in enumerate(names)
    ]
    return Decision(
        node=observation.node,
        seq=observation.seq,
        policy=policy,
        partition=Partition(regions=regions),
        assignments=[Assignment(service=name, cpus=platform.cpus) for name in names],
        reasons=[Reason(text=f"it is the turn of {names[turn]}", service=names[turn], resource="cores", change=1)],
        entropy=Entropy(e_lc=0.25, e_be=0.5, e_s=0.3),
        policy_state=str(int(state) + 1),
    )


def fake_decider(default_policy: str = "turns", seed: int = 0, policies: tuple[str, ...] = ("turns",)) -> Decider:
    return Decider(decide, policies, Refused, default_policy, seed)


if __name__ == "__main__":
    try:
        arguments = dict(argument.removeprefix("--").split("=", 1) for argument in sys.argv[1:])
        settings = load_settings({name.replace("-", "_"): value for name, value in arguments.items()})
        run(make_runtime(settings, fake_decider()))
    except Failure as failure:
        print(f"osml: {failure}", file=sys.stderr)
        sys.exit(failure.exit_code)
