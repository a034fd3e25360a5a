"""What a suite is: its scenarios, and what its report shows beside the general tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from osml.lab.bench.contenders import levers_text
from osml.lab.bench.report.document import Section
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario


@dataclass(frozen=True)
class Suite:
    """A named set of scenarios. `source` says where in which `paper` (a key of published.yaml) it comes from,
    `policies` who is compared there.

    `ask_oracle`: whether a mix can be satisfied at all is asked before it is run. `seeds`: runs of each mix and policy
    where nobody says how many.
    """

    name: str
    title: str
    source: str
    paper: str
    policies: tuple[str, ...]
    scenarios: Callable[[], list[Scenario]]
    sections: Callable[[Results], list[Section]]
    ask_oracle: bool = False
    seeds: int = 3

    @property
    def levers(self) -> str:
        """What policies may set here besides cores, ways and MBA, in one line; empty where there is nothing."""
        return levers_text({lever for scenario in self.scenarios() for lever in scenario.levers}, self.policies)
