"""Thresholds for moving estimates: solved beside the control loop, which never waits for a solution."""

from __future__ import annotations

import threading

from osml.base.failure import Failure, InputError
from osml.dispatch.mdp.parameters import FarmParameters
from osml.dispatch.mdp.thresholds import ThresholdTable, thresholds_for

LIMIT_S = 60.0
"""For one solution. Estimates have moved on by then."""


class ThresholdLookup:
    """Answers with the newest table that is ready. One thread; solutions are cached for each parameter set.

    The first solution of a process may compile for some seconds; one for two servers takes a millisecond.
    """

    def __init__(self) -> None:
        self._wanted: FarmParameters | None = None
        self._found: tuple[FarmParameters, ThresholdTable, str | None] | None = None
        self._changed = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="thresholds", daemon=True)
        self._thread.start()

    def ask(self, parameters: FarmParameters) -> None:
        """Want the table for these; a newer wish replaces one that is not begun."""
        if parameters != self._wanted:
            self._wanted = parameters
            self._changed.set()

    @property
    def table(self) -> ThresholdTable | None:
        """The newest table that is ready, None before the first."""
        return None if self._found is None else self._found[1]

    @property
    def problem(self) -> str | None:
        """Why another table stands in: more load than the model's farm can carry, or a solution that takes too long."""
        return None if self._found is None else self._found[2]

    def stop(self) -> None:
        """End the thread after the solution that it is at."""
        self._stopped = True
        self._changed.set()

    def _run(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            if self._stopped:
                return
            if self._wanted is not None:
                self._found = solved(self._wanted, self.table)


def solved(
    parameters: FarmParameters, newest: ThresholdTable | None = None
) -> tuple[FarmParameters, ThresholdTable, str | None]:
    """The table, or what stands in for it with the reason.

    Non-idling where a farm can't keep up, which has no use for a server that waits. Where no solution is found in time,
    the `newest` table: rates have moved a little since.
    """
    try:
        return parameters, thresholds_for(parameters, LIMIT_S), None
    except InputError as error:
        return parameters, ThresholdTable.non_idling(parameters.servers), str(error)
    except Failure as error:
        return parameters, newest or ThresholdTable.non_idling(parameters.servers), str(error)
