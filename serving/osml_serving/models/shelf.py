"""The models that the server decides with, exchanged while it runs: what is broken is refused, the old ones go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct

from osml.base.failure import Failure
from osml.policies.osml.answers.models import KINDS, Models
from osml.predictors import ANY_PLATFORM, ManifestEntry, Predictor, load_manifest
from osml.predictors.manifest import MANIFEST
from osml.predictors.model_check import open_checked
from osml.predictors.q_function import QFunction
from osml_serving.view.explain import ModelInUse

Key = tuple[str, str]  # platform, kind
MAX_STRANGERS = 256  # platforms without models, whose emptiness is remembered


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
    """The models of a folder. `tell(level, message)` hears of every change; it may be called from another thread."""

    def __init__(self, folder: Path, tell: Callable[[str, str], None] = lambda _level, _message: None) -> None:
        self.folder = folder
        self._tell = tell
        self._stock = _Stock()
        self._seen: object = None

    def models_of(self, platform: str) -> Models:
        """The models of a platform as they are at this moment; `faults` say what is missing."""
        stock = self._stock
        found = stock.by_platform.get(platform)
        if found is None:
            if len(stock.by_platform) > MAX_STRANGERS:
                return self._assemble(stock, platform)
            found = stock.by_platform[platform] = self._assemble(stock, platform)
        return found

    def in_use(self, platform: str | None = None) -> list[ModelInUse]:
        """Models that decide, of one platform or of all."""
        entries = self._stock.entries
        return [
            ModelInUse(entry.name, entry.kind, entry.version, entry.platform, entry.sha256.get("model.onnx", ""))
            for key, entry in sorted(entries.items())
            if platform in (None, key[0]) or (key[0] == ANY_PLATFORM and (platform, key[1]) not in entries)
        ]

    def find(self, name: str) -> Predictor | QFunction | None:
        """A model that decides, by its name."""
        stock = self._stock
        return next((stock.opened[key] for key, entry in stock.entries.items() if entry.name == name), None)

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """What is in the folder and not used."""
        return self._stock.refused

    def changed(self) -> bool:
        """True where the manifest, or a file of a model in it, is another than at the last `reload`. Blocks."""
        return self._signature() != self._seen

    def reload(self) -> bool:
        """Open what is new, then exchange all at once; True where a model was exchanged. Blocks: not for the loop.

        A model that fails its checks is refused, and the one before it goes on. One that is no longer in the manifest
        goes. Where the manifest itself can't be read everything stays as it is.
        """
        self._seen = self._signature()
        before = self._stock
        try:
            if not (self.folder / MANIFEST).is_file():
                raise Failure(f"{self.folder / MANIFEST} is missing, expected a folder of models")
            listed = load_manifest(self.folder).models
        except Failure as failure:
            self._exchange(_Stock(before.entries, before.opened, (Refusal(MANIFEST, str(failure)),)))
            return False
        entries: dict[Key, ManifestEntry] = {}
        opened: dict[Key, Any] = {}
        refused: list[Refusal] = []
        for entry in listed:
            key = (entry.platform, entry.kind)
            if key in entries:
                continue  # the first of a kind is the one that decides (osml.predictors.find_model)
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
                instead = "" if old is None else f" instead of {old.name} version {old.version}"
                self._tell("info", f"{entry.name} version {entry.version} decides for {key[0]}{instead}")
        for key in before.entries.keys() - stock.entries.keys():
            self._tell("warning", f"{before.entries[key].name} is no longer in the manifest and not used any more")
        for refusal in stock.refused:
            if refusal not in before.refused:
                goes_on = [e.name for e in stock.entries.values()]
                self._tell("error", f"{refusal.name} is refused: {refusal.reason}; in use: {', '.join(goes_on) or '-'}")

    def _assemble(self, stock: _Stock, platform: str) -> Models:
        any_platform = {kind: stock.opened.get((ANY_PLATFORM, kind)) for kind in KINDS}
        found = {kind: stock.opened.get((platform, kind), any_platform[kind]) for kind in KINDS}
        faults = [f"model {kind}: none for platform '{platform}'" for kind, model in found.items() if model is None]
        return Models(**found, faults=tuple(faults))

    def _signature(self) -> object:
        """Times and sizes of the manifest and of all files that the last reload looked at."""
        files = [self.folder / MANIFEST]
        try:
            files += [self.folder / e.name / name for e in load_manifest(self.folder).models for name in e.sha256]
        except Failure:
            pass  # `reload` says it
        return tuple(_stamp(file) for file in files)


def _stamp(file: Path) -> tuple[str, int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return str(file), 0, 0, 0
    return str(file), found.st_ino, found.st_mtime_ns, found.st_size
