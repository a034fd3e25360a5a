"""Profiles by service, platform and method: those that come with the package, and those of a folder.

The shipped ones are of the virtual node (docs/reference/ombm.md has the command that made them). An operator's own,
from a live service or another platform, are JSON files in the folder that the environment variable OSML_OMBM_PROFILES
names; they go before the shipped ones.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import cache
from importlib import resources
from pathlib import Path

from osml.bandwidth.online import Predictor
from osml.bandwidth.profile import Profile, load_profile, parse_profile
from osml.base.failure import InputError
from osml.domain.cpu_names import short_name

FOLDER_VARIABLE = "OSML_OMBM_PROFILES"

RATE_STEPS = 256
"""Rates are rounded up to so many steps of the profiled range: a rate that wavers finds its line again."""


class ProfileLibrary:
    """Finds profiles. Of two for the same service, platform and method the first counts."""

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self._predictors: dict[tuple[str, str, str], Predictor] = {}
        self._profiles: dict[tuple[str, str, str], Profile] = {}
        for profile in profiles:
            self._profiles.setdefault((profile.service, short_name(profile.platform), profile.method), profile)

    def predictor(self, service: str, platform: str, method: str) -> Predictor | None:
        """Predictions from the profile that `find` finds; the same object each time, which keeps its lines."""
        key = (service, short_name(platform), method)
        if key not in self._predictors:
            profile = self.find(service, platform, method)
            if profile is None:
                return None
            self._predictors[key] = Predictor(profile, RATE_STEPS)
        return self._predictors[key]

    def find(self, service: str, platform: str, method: str) -> Profile | None:
        """The profile of that method, else one of another method; None where there is none.

        The platform is an id, or its CPU's own name.
        """
        machine = short_name(platform)
        found = self._profiles.get((service, machine, method))
        if found is not None:
            return found
        others = [p for (name, where, _), p in self._profiles.items() if (name, where) == (service, machine)]
        return others[0] if others else None

    def platforms_of(self, service: str) -> list[str]:
        """Platforms on which a service was profiled."""
        return sorted({profile.platform for profile in self._profiles.values() if profile.service == service})


@cache
def shipped_profiles() -> tuple[Profile, ...]:
    """The profiles that come with the package."""
    folder = resources.files("osml.bandwidth").joinpath("profiles")
    if not folder.is_dir():
        return ()
    texts = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith(".json")}
    return tuple(parse_profile(texts[name], name) for name in sorted(texts))


def profiles_fingerprint() -> str:
    """A digest of the operator's profiles, empty where there are none. InputError where their folder can't be used."""
    usual_library()
    given = os.environ.get(FOLDER_VARIABLE)
    digest = hashlib.sha256()
    for path in sorted(Path(given).glob("*.json")) if given else []:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16] if given else ""


@cache
def usual_library() -> ProfileLibrary:
    """The operator's profiles, then the shipped ones. InputError where the operator's folder can't be used."""
    own: list[Profile] = []
    given = os.environ.get(FOLDER_VARIABLE)
    if given:
        folder = Path(given)
        if not folder.is_dir():
            raise InputError(f"{FOLDER_VARIABLE} is '{given}', expected a folder of profiles")
        own = [load_profile(path) for path in sorted(folder.glob("*.json"))]
    return ProfileLibrary([*own, *shipped_profiles()])
