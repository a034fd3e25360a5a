"""Domain types of osml. They are the wire format too: one definition, no copies, no I/O."""

from osml.domain.exchange import (
    DECISION_SCHEMA,
    DRY_RUN,
    MAX_SERVICES,
    NOT_DONE,
    OBSERVATION_SCHEMA,
    Decision,
    Entropy,
    Host,
    Infeasible,
    Observation,
    Outcome,
    Reason,
    Resource,
    ServiceEntropy,
)
from osml.domain.experience import EXPERIENCE_SCHEMA, MAX_EXPERIENCES, Experience, Experiences
from osml.domain.forecast import Forecast, Point
from osml.domain.legality import partition_error, usable_domains
from osml.domain.partition import Assignment, Knobs, Partition, Region
from osml.domain.platform import CacheDomain, KnobRange, MbaRange, Platform
from osml.domain.service import Counters, Latency, Percentile, Service

__all__ = [
    "DECISION_SCHEMA",
    "DRY_RUN",
    "EXPERIENCE_SCHEMA",
    "MAX_EXPERIENCES",
    "MAX_SERVICES",
    "NOT_DONE",
    "OBSERVATION_SCHEMA",
    "Assignment",
    "CacheDomain",
    "Counters",
    "Decision",
    "Entropy",
    "Experience",
    "Experiences",
    "Forecast",
    "Host",
    "Infeasible",
    "KnobRange",
    "Knobs",
    "Latency",
    "MbaRange",
    "Observation",
    "Outcome",
    "Partition",
    "Percentile",
    "Platform",
    "Point",
    "Reason",
    "Region",
    "Resource",
    "Service",
    "ServiceEntropy",
    "partition_error",
    "usable_domains",
]
