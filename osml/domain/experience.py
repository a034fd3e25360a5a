"""What came of a decision: the raw material of online learning."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from osml.domain.exchange import Decision, Observation

EXPERIENCE_SCHEMA = "osml/experience/v1"
MAX_EXPERIENCES = 256


class Experience(Struct, frozen=True, forbid_unknown_fields=True):
    """One decision of one node: what was observed, what was decided on it, and what was observed after it.

    `after.outcome` says whether the decision was applied. Observations are raw, so that models with other inputs can
    learn from old experiences.
    """

    before: Observation
    decision: Decision
    after: Observation
    schema: Literal["osml/experience/v1"] = EXPERIENCE_SCHEMA


class Experiences(Struct, frozen=True, forbid_unknown_fields=True):
    """A batch of experiences, the body of `POST /v1/experiences`."""

    experiences: Annotated[list[Experience], Meta(min_length=1, max_length=MAX_EXPERIENCES)]
