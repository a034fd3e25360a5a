"""The process of one slow policy: `python -m osml_serving.slow.worker POLICY SEED`.

It reads observations and writes replies, one line each. It ends with its standard input.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from typing import BinaryIO

import msgspec

from osml.base.failure import Failure
from osml.domain import Observation
from osml_serving.decider import Decider, PolicyFailedError, installed_decider
from osml_serving.errors import ApiError
from osml_serving.example import EXAMPLE
from osml_serving.slow.replies import Reply, Started

NICENESS = 10  # decisions of the other policies come first
INTERVALS = 24  # until then a policy has imported what it needs: clite begins to search at its tenth


def warm_up(decider: Decider) -> None:
    """Play some intervals of the example, so that no node pays for an import. Raises as the decider does."""
    observation = EXAMPLE
    for seq in range(INTERVALS):
        decision = decider(observation)
        observation = msgspec.structs.replace(
            EXAMPLE,
            seq=seq + 1,
            time_s=EXAMPLE.time_s + seq + 1,
            partition=decision.partition,
            assignments=decision.assignments,
            policy_state=decision.policy_state,
        )


def reply_to(decider: Decider, line: bytes) -> Reply:
    """The reply to one observation; what the policy raises is a reply, too."""
    began_s = time.process_time()
    details: list[str] = []
    decider.discarded = lambda _policy, detail: details.append(detail)
    try:
        reply = Reply(0.0, decider(msgspec.json.decode(line, type=Observation)))
        reply.detail = "".join(details)
    except ApiError as error:
        reply = Reply(0.0, status=error.status, refused=error.body)
    except PolicyFailedError as error:
        reply = Reply(0.0, failed=str(error), detail=error.detail)
    reply.cpu_s = time.process_time() - began_s
    return reply


def serve(decider: Decider, lines: BinaryIO, out: BinaryIO) -> None:
    """Warm up, say so, and answer until the input ends."""
    try:
        warm_up(decider)
        started = Started()
    except (ApiError, PolicyFailedError) as error:
        cause = error.__cause__
        detail = error.detail if isinstance(error, PolicyFailedError) else traceback.format_exc()
        started = Started(str(cause) if isinstance(cause, Failure) else str(error), detail)
    _write(out, started)
    if started.fault is None:
        for line in lines:
            _write(out, reply_to(decider, line))


def _write(out: BinaryIO, message: Started | Reply) -> None:
    out.write(msgspec.json.encode(message) + b"\n")
    out.flush()


def main() -> None:
    """Keep standard output for replies: what a policy prints goes to the log."""
    policy, seed = sys.argv[1], int(sys.argv[2])
    with contextlib.suppress(OSError):  # a sandbox may forbid it
        os.nice(NICENESS)
    for number in (signal.SIGINT, signal.SIGTERM):  # for the server, which still needs answers while it drains
        signal.signal(number, signal.SIG_IGN)
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        serve(installed_decider(policy, seed, allowed=[policy]), sys.stdin.buffer, out)


if __name__ == "__main__":
    main()
