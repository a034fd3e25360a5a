"""Checks an experience: one decision, and the interval after it on the same node."""

from __future__ import annotations

import math

from osml.decide.request import MAX_PLATFORM, RequestError, check_observation
from osml.domain import Experience, Observation, partition_error
from osml_serving.errors import ApiError

LARGEST = 1e30  # beyond everything a machine counts, and far inside of what the models' 32-bit numbers hold


def check_experience(experience: Experience, where: str) -> None:
    """Raise ApiError 422, which names the field below `where`, for the first contradiction."""
    before, decision, after = experience.before, experience.decision, experience.after
    for name, observation in (("before", before), ("after", after)):
        _check_observation(observation, f"{where}.{name}")
    for name, node in (("decision", decision.node), ("after", after.node)):
        if node != before.node:
            raise _wrong(f"{where}.{name}.node", f"is '{node}', expected '{before.node}' as in `before`")
    if after.platform.id != before.platform.id:
        given, expected = after.platform.id[:MAX_PLATFORM], before.platform.id[:MAX_PLATFORM]
        raise _wrong(f"{where}.after.platform.id", f"is '{given}', expected '{expected}' as in `before`")
    if after.time_s <= before.time_s:
        words = f"is {after.time_s:g}, expected a time after {before.time_s:g}, the time of `before`"
        raise _wrong(f"{where}.after.time_s", words)
    if decision.seq != before.seq:
        raise _wrong(f"{where}.decision.seq", f"is {decision.seq}, expected {before.seq} as in `before`")
    if after.outcome is not None and after.outcome.seq != decision.seq:
        raise _wrong(
            f"{where}.after.outcome.seq", f"is {after.outcome.seq}, expected {decision.seq} as in the decision"
        )
    fault = partition_error(decision.partition, before.platform, [service.name for service in before.services])
    if fault is not None:
        raise _wrong(f"{where}.decision.partition", f"is not legal: {fault}")


def _check_observation(observation: Observation, where: str) -> None:
    name = observation.platform.id
    if not name or len(name) > MAX_PLATFORM or not name.isprintable():
        raise _wrong(f"{where}.platform.id", f"is invalid, expected 1 to {MAX_PLATFORM} printable characters")
    try:
        check_observation(observation)
    except RequestError as error:
        field = where if error.field is None else f"{where}.{error.field}"
        raise ApiError(422, "invalid_experience", f"{where}: {error.message}", field=field) from None
    if not observation.time_s <= LARGEST:
        raise _wrong(f"{where}.time_s", f"is {observation.time_s:g}, expected seconds of the node's clock")
    for index, service in enumerate(observation.services):
        for part, measured in (("latency", service.latency), ("counters", service.counters)):
            for field in () if measured is None else measured.__struct_fields__:
                value = getattr(measured, field)
                if value is not None and not (math.isfinite(value) and value <= LARGEST):
                    raise _wrong(
                        f"{where}.services[{index}].{part}.{field}",
                        f"is {value:g}, expected a finite number of at most {LARGEST:g}",
                    )


def _wrong(field: str, words: str) -> ApiError:
    return ApiError(422, "invalid_experience", f"{field} {words}", field=field)
