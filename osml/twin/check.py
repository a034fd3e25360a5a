"""Predicts a record that the twin was not fitted to, and scores that beside simple predictors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from osml.base.failure import InputError
from osml.records import Record
from osml.simulator.columns import FloatArray
from osml.twin.document import Twin, check_machine, check_tenants, noise_at
from osml.twin.ensemble import judged_by
from osml.twin.scenes import LATENCIES, SETTLING, check_one_cache, rate_of, tenants_of
from osml.twin.trajectory import along, measured_along, names_of

MEMBERS = 16
CLOSE = 0.25
_Errors = list[tuple[float, float, float, float]]
"""Logarithms: measured, predicted, low and high (NaN: no bounds)."""

PREDICTORS = {
    "twin": "from loads and allocations alone",
    "twin_one_ahead": "and from how far off it was in the last interval",
    "last_interval": "as in the last interval",
    "mean_by_load": "mean of the fitted record at the nearest load",
}


def _bounds(values: FloatArray, noise: tuple[float, float, float]) -> tuple[float, float, float]:
    """(low, middle, high) of members' logarithms with the noise of an interval."""
    low, half, high = np.nanquantile(values, [0.05, 0.5, 0.95]).tolist()
    middle = half + noise[1]
    return (
        middle - math.hypot(half - low, noise[1] - noise[0]),
        middle,
        middle + math.hypot(high - half, noise[2] - noise[1]),
    )


def _mean_by_load(twin: Twin, service: str, percentile: str, rate: float) -> float:
    """Mean logarithm in the fitted record's scene whose load was nearest."""
    known = [
        (abs(math.log(scene.rates[service] / rate)), scene.seen[service][percentile].log)
        for scene in twin.scenes
        if scene.rates.get(service) and percentile in scene.seen.get(service, {}) and rate > 0
    ]
    return min(known)[1] if known else math.nan


def predictions(twin: Twin, record: Record, members: int = MEMBERS) -> dict[str, dict[str, _Errors]]:
    """Measured and predicted latencies at the percentile of the record's target, by predictor and service."""
    ensemble = judged_by(twin.ensemble.some(members), tenants_of(record))
    names = names_of(ensemble)
    with np.errstate(all="ignore"):
        found = along(ensemble, record)
    real = measured_along(record, names)
    out: dict[str, dict[str, _Errors]] = {name: {} for name in PREDICTORS}
    for place, name in enumerate(names):
        at = LATENCIES.index(ensemble.tenant(name).percentile)
        noise = noise_at(twin, name, LATENCIES[at])
        rows: dict[str, _Errors] = {predictor: [] for predictor in PREDICTORS}
        last_real = last_off = math.nan
        for interval, line in enumerate(record.lines):
            if interval in record.gaps:
                last_real = last_off = math.nan
            now, members_now = float(real[interval, place, at]), found[:, interval, place, at]
            if not (math.isfinite(now) and np.isfinite(members_now).any()):
                last_real = last_off = math.nan
                continue
            low, middle, high = _bounds(members_now, noise.quantiles)
            service = next(one for one in line.observation.services if one.name == name)
            if interval >= SETTLING and math.isfinite(last_real):
                rows["twin"].append((now, middle, low, high))
                ahead = noise.kept * last_off
                half, left = float(np.nanmedian(members_now)), noise.left
                rows["twin_one_ahead"].append(
                    (now, half + noise.quantiles[1] + ahead + left[1], *_ahead(members_now, half, noise, ahead))
                )
                rows["last_interval"].append((now, last_real, math.nan, math.nan))
                by_load = _mean_by_load(twin, name, LATENCIES[at], rate_of(service) or 0.0)
                rows["mean_by_load"].append((now, by_load, math.nan, math.nan))
            last_real, last_off = now, now - float(np.nanmedian(members_now)) - noise.quantiles[1]
        for predictor, errors in rows.items():
            out[predictor][name] = errors
    return out


def _ahead(values: FloatArray, half: float, noise: Any, ahead: float) -> tuple[float, float]:
    """Bounds where the last deviation is known: the members' part of it was in that."""
    low, high = np.nanquantile(values, [0.05, 0.95]).tolist()
    rest, middle = 1.0 - noise.kept, half + noise.quantiles[1] + ahead
    return (
        middle + noise.left[1] - math.hypot((half - low) * rest, noise.left[1] - noise.left[0]),
        middle + noise.left[1] + math.hypot((high - half) * rest, noise.left[2] - noise.left[1]),
    )


def score(errors: _Errors) -> dict[str, float | int | None]:
    """Relative errors of predicted latencies: median, 90th percentile, share within 25 %, and held bounds."""
    known = [(now, guess, low, high) for now, guess, low, high in errors if math.isfinite(guess)]
    if not known:
        return {"intervals": 0, "median_error": None, "p90_error": None, "within_25pct": None, "coverage_90": None}
    off = np.array([abs(math.expm1(guess - now)) for now, guess, _, _ in known])
    bounded = [(now, low, high) for now, _, low, high in known if math.isfinite(low)]
    held = [low <= now <= high for now, low, high in bounded]
    return {
        "intervals": len(known), "median_error": float(np.median(off)), "p90_error": float(np.quantile(off, 0.9)),
        "within_25pct": float((off <= CLOSE).mean()), "coverage_90": float(np.mean(held)) if held else None,
    }  # fmt: skip


def checked(twin: Twin, record: Record, members: int = MEMBERS) -> dict[str, Any]:
    """The document of `osml look twin check`. InputError for a record of another machine or with nothing to predict."""
    check_one_cache(line.observation for line in record.lines)
    check_machine(twin, record.node, (line.observation.platform for line in record.lines), "the record")
    check_tenants(twin, (line.observation for line in record.lines), "the record")
    found = predictions(twin, record, members)
    overall = {name: score([row for rows in by.values() for row in rows]) for name, by in found.items()}
    if not overall["twin"]["intervals"]:
        raise InputError("the record has no two intervals after each other with a latency, so nothing can be checked")
    return {
        "node": twin.node, "intervals": len(record.lines), "percentile_of": "the target",
        "predictors": PREDICTORS, "overall": overall,
        "services": [
            {"name": name} | {predictor: score(found[predictor][name]) for predictor in found}
            for name in names_of(twin.ensemble)
        ],
    }  # fmt: skip
