"""The models that the policy `osml` decides with, opened once for a platform."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from osml.bandwidth import ProfileLibrary
from osml.base.failure import Failure, InputError, MachineError
from osml.predictors import ANY_PLATFORM, Predictor, find_model, load_predictor, models_folder
from osml.predictors.q_function import QFunction, load_q_function

USED = ("a", "a2", "c", "c2")
"""Kinds of models that some variant of the policy asks; Model-B and B' (OSML, section 4.2) are not."""

_PLATFORMS = 64  # opened at a time; a server may see many


@dataclass(frozen=True)
class Models:
    """Models of one platform; None where one is missing. `faults` say, model by model, why.

    `a` is OSML's Model-A (a service alone), `a2` its shadow A' (among others), `c` Model-C, a DQN, and `c2` C', which
    says what a cell will bring. `general` is the A' that learned from many machines, where `a2` is another: it is asked
    about services that are out-of-distribution for that one.
    `profiles` are bandwidth profiles (OMBM); None: the usual ones.
    """

    a: Predictor | None = None
    a2: Predictor | None = None
    c: QFunction | None = None
    c2: Predictor | None = None
    faults: tuple[str, ...] = ()
    profiles: ProfileLibrary | None = None
    general: Predictor | None = None

    def only(self, *kinds: str) -> Models:
        """Without all others (ablations of OSML section 6.2)."""
        general = self.general if "a2" in kinds else None
        return replace(self, general=general, **{kind: None for kind in USED if kind not in kinds})


def load_models(folder: Path, platform: str) -> Models:
    """The models in use that a folder has for a platform, checked; never raises: what is wrong is in `faults`."""
    found: dict[str, Any] = {}
    faults: list[str] = []
    for kind in USED:
        opener: Callable[[Path], Any] = load_q_function if kind == "c" else load_predictor
        try:
            opened = opener(find_model(folder, kind, platform))
            if opened.metadata.kind != kind:
                raise InputError(f"{opened.metadata.name} is of kind {opened.metadata.kind}, the manifest says {kind}")
            found[kind] = opened
        except (InputError, Failure, MachineError) as error:
            faults.append(f"model {kind}: {error}")
    return Models(**found, faults=tuple(faults), general=_general(folder, found.get("a2")))


def _general(folder: Path, own: Predictor | None) -> Predictor | None:
    """The A' of all machines, where a platform has one of its own. What is wrong with it, who needs it will read."""
    try:
        general = load_predictor(find_model(folder, "a2", ANY_PLATFORM))
    except (InputError, Failure, MachineError):
        return None
    return None if own is not None and own.metadata.name == general.metadata.name else general


@lru_cache(maxsize=_PLATFORMS)
def shipped_models(platform: str) -> Models:
    """Those of the folder of shipped models, opened at the first call; `shipped_models.cache_clear()` forgets them."""
    return load_models(models_folder(), platform)
