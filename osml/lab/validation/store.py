"""The folder of a run: its settings, predictions and measured rows, each written before the next step begins.

A prediction's line is on the disk before its cell is measured. A killed run leaves at most half a last line, which is
cut off when the run goes on.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from osml.base.failure import InputError
from osml.base.json_file import read_json
from osml.lab.validation.cells import Predicted, Row


class Settings(msgspec.Struct, frozen=True):
    """What makes a run: the same settings and code in the same folder go on where they stopped."""

    seed: int
    services: list[str]
    per_service: int
    saturated: int
    seconds: float
    code: str = ""
    machine: str = ""
    noise_cpus: float = 0.0
    precedence: int = 1
    windows: int = 1


class Said(msgspec.Struct, frozen=True):
    """A prediction of the cell with this key."""

    key: str
    predicted: Predicted


class Store:
    """Opens or goes on with a run. Raises InputError where the folder holds cells of a run of other settings."""

    def __init__(self, out: Path, settings: Settings) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self._rows, self._said = out / "rows.jsonl", out / "predictions.jsonl"
        header = out / "settings.json"
        begun = any(path.exists() and path.stat().st_size for path in (self._rows, self._said))
        if header.exists() and begun:
            try:
                found = read_json(header, Settings)
            except InputError as error:
                raise InputError(f"--out: {error}: give another folder") from None
            if found != settings:
                raise InputError(
                    f"--out {out} holds a run with other settings ({found}): give another folder, or the same settings"
                )
        else:
            whole = out / "settings.json.new"  # a kill leaves all of it or nothing
            whole.write_bytes(msgspec.json.format(msgspec.json.encode(settings)) + b"\n")
            whole.rename(header)
        for path in (self._rows, self._said):
            _cut_half_line(path)

    def rows(self) -> list[Row]:
        """What was measured so far."""
        return [msgspec.json.decode(line, type=Row) for line in _lines(self._rows)]

    def predictions(self) -> dict[str, Predicted]:
        """What was predicted so far, by the key of the cell."""
        said = [msgspec.json.decode(line, type=Said) for line in _lines(self._said)]
        return {each.key: each.predicted for each in said}

    def predict(self, key: str, predicted: Predicted) -> None:
        """Keep a prediction; it is on the disk when this returns."""
        _append(self._said, msgspec.json.encode(Said(key, predicted)))

    def measured(self, row: Row) -> None:
        """Keep a measured cell."""
        _append(self._rows, msgspec.json.encode(row))


def _lines(path: Path) -> list[bytes]:
    """Whole lines."""
    text = path.read_bytes() if path.exists() else b""
    return text[: text.rfind(b"\n") + 1].splitlines()


def _cut_half_line(path: Path) -> None:
    if path.exists():
        text = path.read_bytes()
        os.truncate(path, text.rfind(b"\n") + 1)


def _append(path: Path, line: bytes) -> None:
    with path.open("ab") as file:
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())
