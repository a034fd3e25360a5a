"""A program that computes: measured from its first instruction to its last, or for a while."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from osml.base.failure import Failure
from osml.lab.profile.bench import Bench
from osml.lab.profile.caches import Caches
from osml.lab.profile.outcome import Outcome
from osml.lab.trials.children import Interrupted, interrupt_on_signals

_POLL_S = 0.05


@dataclass(frozen=True)
class Work:
    """A command, what is left out at its begin, how long it is measured at most, and the requests that it serves."""

    command: Sequence[str]
    warm_s: float = 0.0
    seconds: float | None = None
    requests: int | None = None


def run_program(work: Work, caches: Caches) -> Outcome:
    """Run the program under instrumentation. Raises Failure for one that fails, or leaves a background process."""
    interrupt_on_signals()
    with Bench(caches) as bench:
        if work.warm_s == 0.0:
            bench.counts.start()
        began = time.monotonic()
        child = bench.start("program", list(work.command), instrumented=True)
        complete, cut = True, False
        try:
            if work.warm_s > 0.0:
                while child.running and time.monotonic() < began + work.warm_s:
                    time.sleep(_POLL_S)
                if child.exit_code == 0:
                    raise Failure(f"the program ended within the warm-up of {work.warm_s:g} s: nothing was measured")
                child.check()
                bench.counts.start()
            measured = time.monotonic()
            while child.running:
                if work.seconds is not None and time.monotonic() > measured + work.seconds:
                    cut = True
                    break
                time.sleep(_POLL_S)
        except Interrupted:
            complete = False
        bench.counts.stop()
        seconds = time.monotonic() - began
        ended = complete and not cut
        left = bench.living() if ended else 0
        words = child.log_tail()
        code = child.exit_code
        bench.stop(child)
        if ended and code != 0:
            raise Failure(f"the program ended with exit code {code}: {words or 'no output'}")
        outcome = Outcome(bench.counts.report(), seconds, work.warm_s == 0.0 and ended, complete, exit_code=code)
        if ended:
            outcome.requests = work.requests
        if left:
            outcome.whole = False
            outcome.notes.append(
                f"{left} processes still ran when the command ended, and were ended: "
                "use the option of the program that keeps it in the foreground"
            )
        return outcome
