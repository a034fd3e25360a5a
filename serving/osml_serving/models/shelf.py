"""The models in use, exchanged while the server runs: a broken model is refused, and the old one stays in use."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct

from osml.base.failure import Failure
from osml.policies.osml.answers.models import USED, Models
from osml.predictors import ANY_PLATFORM, ManifestEntry, Predictor, load_manifest
from osml.predictors.manifest import MANIFEST, matching
from osml.predictors.model_check import open_checked
from osml.predictors.q_function import QFunction
from osml_serving.view.explain import ModelInUse

Key = tuple[str, str]  # platform, kind
MAX_PLATFORMS = 256  # platforms in the cache, also those without models
FIRST_S, LONGEST_S = 10.0, 600.0  # until what was refused is tried again; each time twice as long


class Refusal(Struct):
    """A model, or the manifest itself, that is not used, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class _Stock:
    """One state of the shelf; never changed, only replaced as a whole."""

    entries: dict[Key, ManifestEntry] = field(default_factory=dict[Key, ManifestEntry])
    opened: dict[Key, Any] = field(default_factory=dict[Key, Any])
    refused: tuple[Refusal, ...] = ()
    by_platform: dict[str, Models] = field(default_factory=dict[str, Models])


class ModelShelf:
    """The models of a folder. `tell(level, message)` gets every change; it may be called from another thread."""

    def __init__(
        self,
        folder: Path,
        tell: Callable[[str, str], None] = lambda _level, _message: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self._tell = tell
        self._clock = clock
        self._stock = _Stock()
        self._seen: object = None
        self._wait_s, self._again_s = FIRST_S, math.inf

    def models_of(self, platform: str) -> Models:
        """The models of a platform as they are at this moment; `faults` say what is missing."""
        stock = self._stock
        models = stock.by_platform.get(platform)
        if models is None:
            models = self._assemble(stock, platform)
            if len(stock.by_platform) <= MAX_PLATFORMS:
                stock.by_platform[platform] = models
        return models

    def in_use(self, platform: str | None = None) -> list[ModelInUse]:
        """Models in use, of one platform or of all."""
        by_key = self._stock.entries
        entries = [entry for _, entry in sorted(by_key.items())]
        if platform is not None:
            kinds = sorted({entry.kind for entry in entries})
            found = [matching(by_key.values(), kind, platform) for kind in kinds]
            entries = [entry for entry in found if entry is not None]
        return [
            ModelInUse(entry.name, entry.kind, entry.version, entry.platform, entry.sha256.get("model.onnx", ""))
            for entry in entries
        ]

    def find(self, name: str) -> Predictor | QFunction | None:
        """A model in use, by its name."""
        stock = self._stock
        return next((stock.opened[key] for key, entry in stock.entries.items() if entry.name == name), None)

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """Models of the folder that were refused."""
        return self._stock.refused

    def changed(self) -> bool:
        """True where there is something to do for `reload`. Blocks.

        The manifest, or a file of a model in it, is another than at the last one; or something was refused, perhaps for
        a reason that passes: too many open files, no memory.
        """
        return self._signature() != self._seen or self._clock() >= self._again_s

    def reload(self) -> bool:
        """Open new models, then exchange all at once; True if a model was exchanged. Blocks: not for the event loop.

        A model that fails its checks is refused, and the old one stays in use. A model that the manifest does not list
        is removed. If the manifest is unreadable, all models stay.
        """
        now = self._signature()
        self._wait_s = FIRST_S if now != self._seen else min(2 * self._wait_s, LONGEST_S)
        self._seen = now
        try:
            return self._read()
        finally:
            self._again_s = self._clock() + self._wait_s if self.refused else math.inf

    def _read(self) -> bool:
        before = self._stock
        try:
            listed = load_manifest(self.folder).models  # first: it says in a sentence what may not be read
            if not (self.folder / MANIFEST).is_file():
                raise Failure(f"{self.folder / MANIFEST} is missing, expected a model folder with a manifest")
        except Failure as failure:
            self._exchange(_Stock(before.entries, before.opened, (Refusal(MANIFEST, str(failure)),)))
            return False
        entries: dict[Key, ManifestEntry] = {}
        opened: dict[Key, Any] = {}
        refused: list[Refusal] = []
        for entry in listed:
            key = (entry.platform, entry.kind)
            if key in entries:
                continue  # the first of a kind is in use (osml.predictors.find_model)
            try:
                same = before.entries.get(key) == entry
                opened[key] = before.opened[key] if same else open_checked(self.folder, entry)
                entries[key] = entry
            except Exception as error:  # a file from outside can be wrong in any way
                reason = str(error) if isinstance(error, Failure) else repr(error)
                refused.append(Refusal(entry.name, reason))
                if key in before.entries:
                    entries[key], opened[key] = before.entries[key], before.opened[key]
        self._exchange(_Stock(entries, opened, tuple(refused)))
        return before.entries != entries

    def _exchange(self, stock: _Stock) -> None:
        before, self._stock = self._stock, stock
        for key, entry in stock.entries.items():
            old = before.entries.get(key)
            if old != entry:
                replaced = "" if old is None else f", it replaces {old.name} version {old.version}"
                model = f"model {entry.name} version {entry.version}"
                self._tell("info", f"{model} is in use for platform {key[0]}{replaced}")
        for key in before.entries.keys() - stock.entries.keys():
            model = f"model {before.entries[key].name}"
            self._tell("warning", f"{model} is no longer in use, because the manifest does not list it")
        for refusal in stock.refused:
            if refusal not in before.refused:
                subject = refusal.name if refusal.name == MANIFEST else f"model {refusal.name}"
                in_use = ", ".join(entry.name for entry in stock.entries.values()) or "none"
                self._tell("error", f"{subject} was refused: {refusal.reason}; models in use: {in_use}")

    def _assemble(self, stock: _Stock, platform: str) -> Models:
        chosen = {kind: matching(stock.entries.values(), kind, platform) for kind in USED}
        models = {kind: None if one is None else stock.opened[one.platform, kind] for kind, one in chosen.items()}
        faults = [
            f"no model of kind {kind} for platform '{platform}'" for kind, model in models.items() if model is None
        ]
        general = matching(stock.entries.values(), "a2", ANY_PLATFORM)
        if general is None or general is chosen["a2"]:
            return Models(**models, faults=tuple(faults))
        return Models(**models, faults=tuple(faults), general=stock.opened[general.platform, "a2"])

    def _signature(self) -> object:
        """Times and sizes of the manifest and of all files that the last reload looked at."""
        files = [self.folder / MANIFEST]
        try:
            files += [self.folder / e.name / name for e in load_manifest(self.folder).models for name in e.sha256]
        except Failure:
            pass  # `reload` reports it
        return tuple(_stamp(file) for file in files)


def _stamp(file: Path) -> tuple[str, int, int, int, int]:
    try:
        status = file.stat()
    except OSError:
        return str(file), 0, 0, 0, 0
    return str(file), status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size
