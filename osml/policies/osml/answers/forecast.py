"""What Model-A and A' say of the LC services of an observation, in words that the policy `osml` reasons with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from osml.domain import Forecast, Observation, Point, Service
from osml.domain.cpu_names import short_name
from osml.policies.osml.answers.models import Models
from osml.policies.osml.answers.out_of_distribution import form_of, screened, unlike_all
from osml.predictors import Predictor, feature_rows

COVERAGE = 0.9
"""Of the conformal bounds that decisions rest on."""

_ANSWERS = ("rcliff_cores", "rcliff_ways", "oaa_cores", "oaa_ways", "oaa_bandwidth_gbps")

NO_MODEL = "none"
"""The model of an answer that no model gave."""


class Answer(NamedTuple):
    """One service's prediction: logical CPUs, ways, GB/s; `upper` and `oaa_upper` are conformal bounds.

    `seen`: in training. `strange` says what was measured or answered outside of what can be believed, None where all is
    familiar; `hidden` are features that the model was asked without, because they were far outside of its training.
    """

    service: str
    model: str
    seen: bool
    cliff: tuple[float, float]
    upper: tuple[float, float]
    oaa: tuple[float, float]
    oaa_upper: tuple[float, float]
    gbps: float | None
    strange: str | None = None
    hidden: Sequence[str] = ()

    def forecast(self, *, familiar: bool = True) -> Forecast:
        """The same for the wire."""
        return Forecast(
            service=self.service,
            model=self.model,
            rcliff=Point(*self.cliff),
            rcliff_upper=Point(*self.upper),
            oaa=Point(*self.oaa),
            coverage=COVERAGE,
            familiar=familiar and self.strange is None,
            oaa_bandwidth_gbps=self.gbps,
        )


class ModelFault(NamedTuple):
    """Why the models can't be used for an observation."""

    text: str


def ask(observation: Observation, services: Sequence[Service], models: Models) -> dict[str, Answer] | ModelFault:
    """RCliff and OAA of these services by A' (by A for one that is alone on the node).

    Services that are `strange` to one model are asked of the next: at last of the A' of all machines. A fault where no
    model is there, or none can be asked.
    """
    alone = len(observation.services) == 1
    in_turn: list[Predictor] = []
    for model in (models.a if alone else None, models.a2, models.general):
        if model is not None and all(model is not before for before in in_turn):
            in_turn.append(model)
    if not in_turn:
        faults = [fault for fault in models.faults if fault.startswith("model a2:")]
        return ModelFault(faults[0] if faults else "model a2 is switched off")
    found = _asked(observation, services, in_turn[0])
    for model in in_turn[1:]:
        if isinstance(found, ModelFault):
            other = _asked(observation, services, model)
            found = found if isinstance(other, ModelFault) else other
            continue
        rest = [service for service in services if found[service.name].strange is not None]
        other = _asked(observation, rest, model) if rest else {}
        if not isinstance(other, ModelFault):
            found |= {name: answer for name, answer in other.items() if answer.strange is None}
    return found


def _asked(observation: Observation, services: Sequence[Service], model: Predictor) -> dict[str, Answer] | ModelFault:
    """What one model says, in one batch; a fault where it can't be asked.

    An answer that is no number or no place on any machine, and one whose error nobody knows, makes its service
    `strange`, and is not handed on.
    """
    meta, names = model.metadata, [service.name for service in services]
    try:
        form = form_of(meta, _ANSWERS)
        rows = feature_rows(observation, names, form.inputs)
        # On a machine that is new to the model the services that it knows are strangers, too.
        at_home = form.machines is None or short_name(observation.platform.id) in form.machines
        beyond = None if at_home else unlike_all(rows[0], form)
        if beyond is not None:
            return ModelFault(f"model '{meta.name}' was not trained on a machine like this ({beyond})")
        rows, strange, hidden = screened(rows, form)
        found = model.predict(rows)
        known = [at_home and name in meta.services for name in names]
        upper = found.upper(COVERAGE)
        if upper.shape != (len(names), len(meta.outputs)):
            return ModelFault(f"model '{meta.name}' answers {upper.shape} for {len(names)} services")
        if not all(known) and meta.margins_unseen:
            upper = np.where(np.array(known)[:, None], upper, found.upper(COVERAGE, seen=False))
    except Exception as error:  # a model from outside can be wrong in any way; what it is, the reason says
        return ModelFault(f"model '{meta.name}' can't answer ({type(error).__name__}: {str(error)[:160]})")
    points, bounds = found.points.take(form.places, 1).tolist(), upper.take(form.places, 1).tolist()
    most = (observation.platform.cores * observation.platform.core_quantum, observation.platform.ways or 64)
    answers: dict[str, Answer] = {}
    for i, (name, point, bound) in enumerate(zip(names, points, bounds, strict=True)):
        if not known[i] and not meta.margins_unseen:
            answers[name] = _no_answer(name, f"model '{meta.name}' has no margins for services outside its training")
            continue
        cliff_cores, cliff_ways, cores, ways, gbps = point
        nonsense = _nonsense(point, bound, most)
        if nonsense is not None:
            answers[name] = _no_answer(name, f"model '{meta.name}' predicts an impossible value: {nonsense}")
            continue
        answers[name] = Answer(
            name,
            meta.name,
            known[i],
            (cliff_cores, cliff_ways),
            (bound[0], bound[1]),
            (cores, ways),
            (bound[2], bound[3]),
            gbps if 0 < gbps < math.inf else None,
            strange.get(i),
            hidden.get(i, ()),
        )
    return answers


def _no_answer(name: str, strange: str) -> Answer:
    none = (0.0, 0.0)
    return Answer(name, NO_MODEL, False, none, none, none, none, None, strange)


def _nonsense(point: Sequence[float], bound: Sequence[float], most: tuple[float, float]) -> str | None:
    """What is no number, or so far outside of the machine that the model can't be meant for it, in words."""
    cores, ways = 1.5 * most[0] + 1, 1.5 * most[1] + 1
    for k, limit in enumerate((cores, ways, cores, ways)):
        if not -1 <= point[k] <= limit:  # NaN is neither
            return f"{_ANSWERS[k]} {point[k]:.3g} on a node with {most[k % 2]:g}"
        if not math.isfinite(bound[k]):
            return f"a bound of {_ANSWERS[k]} that is {bound[k]}"
    return None
