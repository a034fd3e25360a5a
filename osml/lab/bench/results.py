"""The rows of a run, and how a report asks for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from osml.lab.bench.episode import Row

Key = tuple[int, int]
"""Case and seed: what is the same for all policies."""


@dataclass(frozen=True)
class Results:
    """All rows of a results folder, its timelines and its metadata."""

    rows: list[Row]
    timelines: list[Row]
    metadata: Row

    @property
    def policies(self) -> list[str]:
        """In the order in which they were asked for, then others that the folder holds."""
        found = {row["policy"] for row in self.rows}
        asked = [policy for policy in self.metadata["policies"] if policy in found]
        return [*asked, *sorted(found.difference(asked))]

    @property
    def parts(self) -> list[str]:
        """Parts of the suite, in order."""
        return list(dict.fromkeys(row["part"] for row in self.rows))

    def of(self, part: str | None = None, policy: str | None = None) -> list[Row]:
        """Rows of a part (None: all) and a policy (None: all)."""
        return [row for row in self.rows if part in (None, row["part"]) and policy in (None, row["policy"])]

    def only(self, part: str) -> Results:
        """The results of one part."""
        return Results(self.of(part), [row for row in self.timelines if row["part"] == part], self.metadata)

    def by_feasibility(self) -> dict[str, Results]:
        """The mixes that the oracle can satisfy, those it can't and those it did not decide; all where nobody asked."""
        groups = {True: ", feasible", False: ", infeasible", None: ", undecided by the oracle"}
        if all(row["feasible_oracle"] is None for row in self.rows):
            return {"": self}
        split = {label: [row for row in self.rows if row["feasible_oracle"] is said] for said, label in groups.items()}
        return {label: Results(rows, [], self.metadata) for label, rows in split.items() if rows}

    def mixes(self, feasible: bool | None) -> int:
        """How many mixes the oracle says this of (None: it did not decide, or was not asked)."""
        return len({row["case"] for row in self.rows if row["feasible_oracle"] is feasible})

    def by_key(self, rows: Iterable[Row], column: str) -> dict[Key, float]:
        """Values of a column by case and seed; rows without one are left out."""
        return {(row["case"], row["seed"]): float(row[column]) for row in rows if row[column] is not None}

    def by_case(self, rows: Iterable[Row], column: str) -> dict[Hashable, list[float]]:
        """Values of a column by case, the seeds of a mix together; rows without one are left out."""
        found: dict[Hashable, list[float]] = defaultdict(list)
        for row in rows:
            if row[column] is not None:
                found[row["case"]].append(float(row[column]))
        return found
