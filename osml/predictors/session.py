"""A model in an ONNX session: raw features in, raw units out; scaling and masking are in the graph."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.base.extras import how_to_install
from osml.base.failure import Failure, InputError, MachineError
from osml.base.onnx_runtime import load_onnx_runtime
from osml.predictors.metadata import ONNX, ModelMetadata, read_metadata

Floats32 = NDArray[np.float32]
FEATURES_KEY = "osml.features"
"""Key of the feature names in the ONNX file itself, separated by commas: a file among strangers still tells."""
MAX_BYTES = 64 * 2**20


class Prediction(NamedTuple):
    """Answers for a batch: `points` and `spread`, shape (rows, outputs), in the units of the outputs."""

    points: Floats32
    spread: Floats32
    metadata: ModelMetadata

    def margin(self, coverage: float, *, seen: bool = True) -> Floats32:
        """Half the width of the interval that holds the truth in the share `coverage`; shape (rows, outputs).

        `seen`: of services like those in training; else of services that the model does not know: InputError where
        nobody measured how far it errs for them.
        """
        return np.asarray(self.spread * _factors_of(self.metadata, coverage, seen).two_sided, np.float32)

    def upper(self, coverage: float, *, seen: bool = True) -> Floats32:
        """What the truth exceeds in the share 1 - `coverage` at most; shape (rows, outputs)."""
        factors = _factors_of(self.metadata, coverage, seen).upper
        return np.asarray(self.points + self.spread * factors, np.float32)


class _Factors(NamedTuple):
    """A `Margin` as arrays, and whose it is."""

    metadata: ModelMetadata
    two_sided: Floats32
    upper: Floats32


_factors: dict[tuple[int, float, bool], _Factors] = {}


def _factors_of(metadata: ModelMetadata, coverage: float, seen: bool) -> _Factors:
    """Kept from the first question on."""
    key = (id(metadata), coverage, seen)
    found = _factors.get(key)
    if found is not None and found.metadata is metadata:
        return found
    margins = metadata.margins if seen else metadata.margins_unseen
    margin = margins.get(f"{coverage:g}")
    if margin is None:
        known, whose = ", ".join(margins) or "none", "" if seen else " on services outside of its training"
        raise InputError(f"coverage is {coverage:g}, expected one that the model was calibrated for{whose}: {known}")
    if len(_factors) > _MOST_FACTORS:
        _factors.clear()
    arrays = np.array(margin.two_sided, np.float32), np.array(margin.upper, np.float32)
    found = _factors[key] = _Factors(metadata, *arrays)
    return found


_MOST_FACTORS = 1024


class RowCheck:
    """Refuses feature rows that a model can't answer."""

    def __init__(self, metadata: ModelMetadata):
        self._name, self._wanted = metadata.name, metadata.inputs
        required = np.array([not feature.may_be_missing for feature in metadata.features])
        self._required = required if required.any() else None

    def __call__(self, features: NDArray[Any]) -> Floats32:
        """`features` as float32, (rows, features). InputError for another shape, or NaN where that may not be."""
        x: Floats32 = np.ascontiguousarray(features, np.float32)
        if x.ndim != 2 or x.shape[1] != len(self._wanted):
            raise InputError(f"features have shape {x.shape}, model '{self._name}' expects (rows, {len(self._wanted)})")
        if self._required is not None:
            missing = np.isnan(x) & self._required
            if missing.any():
                name = self._wanted[int(np.argwhere(missing)[0][1])]
                raise InputError(f"feature '{name}' is missing, model '{self._name}' can't do without it")
        return x


class BoundSession:
    """An onnxruntime session that reads and writes small batches in memory of its own: less to set up in each call.

    May be called from several threads: each has memory of its own.
    """

    def __init__(self, session: Any, metadata: ModelMetadata, answers: Sequence[str]):
        self._session, self._answers = session, list(answers)
        self._inputs, self._outputs = len(metadata.features), len(metadata.outputs)
        self._memory = _Memory()

    def __call__(self, x: Floats32) -> Floats32 | list[Floats32]:
        """The answers for `x` (rows, inputs), one after the other, each (rows, outputs)."""
        rows = len(x)
        if not 0 < rows <= _MOST_BOUND:
            parts = np.split(x, range(_PART, rows, _PART))
            found = [self._session.run(self._answers, {"features": part}) for part in parts]
            return [np.concatenate(answers) for answers in zip(*found, strict=True)]
        bound = self._memory.by_rows.get(rows)
        if bound is None:
            bound = self._memory.by_rows[rows] = self._bound(rows)
        bound.features[...] = x
        self._session.run_with_iobinding(bound.binding)
        return bound.answers.copy()

    def _bound(self, rows: int) -> _Bound:
        binding: Any = self._session.io_binding()
        features = np.empty((rows, self._inputs), np.float32)
        binding.bind_input("features", "cpu", 0, np.float32, features.shape, features.ctypes.data)
        answers = np.empty((len(self._answers), rows, self._outputs), np.float32)
        for name, answer in zip(self._answers, answers, strict=True):
            binding.bind_output(name, "cpu", 0, np.float32, answer.shape, answer.ctypes.data)
        return _Bound(binding, features, answers)


_MOST_BOUND = 64
"""Rows of a batch that is bound: the services of a node."""

_PART = 4096
"""Rows that are asked at a time in a large batch: what they need in between stays in the processor's cache."""


class _Bound(NamedTuple):
    """Memory for batches of one size, and what ties it to a session."""

    binding: Any
    features: Floats32
    answers: Floats32  # (answers, rows, outputs)


class _Memory(threading.local):
    """What one thread has bound, by the number of rows."""

    def __init__(self) -> None:
        self.by_rows: dict[int, _Bound] = {}


class Predictor:
    """An opened model; may be called from several threads."""

    def __init__(self, metadata: ModelMetadata, session: BoundSession):
        self.metadata, self._session = metadata, session
        self._rows = RowCheck(metadata)

    def predict(self, features: NDArray[Any]) -> Prediction:
        """Answers for `features`, shape (rows, len(metadata.features)), NaN where not measured.

        Raises InputError where the shape is another, or a value is NaN in a feature that the model can't do without.
        """
        found = self._session(self._rows(features))
        return Prediction(found[0], found[1], self.metadata)


def load_predictor(folder: Path) -> Predictor:
    """Open the model A, A', B or B' of a folder; raises as `open_session` does."""
    metadata, session = open_session(folder, ("points", "spread"))
    return Predictor(metadata, session)


def open_session(folder: Path, answers: tuple[str, ...]) -> tuple[ModelMetadata, BoundSession]:
    """The metadata of a model's folder, and a session that gives `answers`, (rows, outputs) each.

    With one thread (5 times as fast as many, for networks this small). Raises InputError for a broken model or one
    whose features or outputs are not those of its metadata, Failure where its answers are not finite, MachineError
    where onnxruntime is missing.
    """
    metadata = read_metadata(folder)
    try:
        runtime = load_onnx_runtime()
    except ImportError:
        raise MachineError(f"models need onnxruntime, which is not installed: {how_to_install('models')}") from None
    file = folder / ONNX
    if not file.is_file():
        raise InputError(f"{file} is missing, expected a model beside its metadata")
    if file.stat().st_size > MAX_BYTES:
        raise InputError(f"{file} has {file.stat().st_size} bytes, expected at most {MAX_BYTES}")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = False  # its bookkeeping costs more than malloc, for answers this small
    try:
        session = runtime.InferenceSession(file.read_bytes(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a dozen classes, all of them its own
        raise InputError(
            f"{file} is not a model that onnxruntime can run ({' '.join(str(error).split())[:200]})"
        ) from None
    try:
        _check(file, session, metadata, answers)
    except (InputError, Failure):
        raise
    except Exception as error:  # a graph that opens and can't be run, tensors without a shape
        text = " ".join(str(error).split())[:200]
        raise InputError(f"{file} can't be used ({type(error).__name__}: {text})") from None
    return metadata, BoundSession(session, metadata, answers)


def _difference(told: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    """Of the features in the file and in metadata.json, which are not the same."""
    only = [name for name in told if name not in wanted]
    missing = [name for name in wanted if name not in told]
    if not only and not missing:
        pairs = enumerate(zip_longest(told, wanted, fillvalue=""), start=1)
        at, (one, other) = next((at, pair) for at, pair in pairs if pair[0] != pair[1])
        return f"feature {at} is '{one}', metadata.json says '{other}'"
    sides = (("model.onnx", only), ("metadata.json", missing))
    return "; ".join(f"only {where} has {', '.join(names)}"[:300] for where, names in sides if names)


def _check(file: Path, session: Any, metadata: ModelMetadata, answers: tuple[str, ...]) -> None:
    """The file's inputs and outputs are those that its metadata speak of."""
    told = tuple(session.get_modelmeta().custom_metadata_map.get(FEATURES_KEY, "").split(","))
    if told != metadata.inputs:
        raise InputError(
            f"{file}: features differ ({_difference(told, metadata.inputs)}): metadata.json describes another model"
        )
    inputs = [(found.name, found.shape[-1]) for found in session.get_inputs()]
    outputs = [(found.name, found.shape[-1]) for found in session.get_outputs()]
    if inputs != [("features", len(metadata.features))]:
        raise InputError(f"{file}: inputs are {inputs}, expected features with {len(metadata.features)} columns")
    wanted = [(name, len(metadata.outputs)) for name in answers]
    if outputs != wanted:
        raise InputError(f"{file}: outputs are {outputs}, expected {wanted}")
    trial = session.run(None, {"features": np.zeros((1, len(metadata.features)), np.float32)})
    if not all(np.isfinite(part).all() for part in trial):
        raise Failure(f"{file}: the answer to a row of zeros is not finite")
    BoundSession(session, metadata, answers)(np.zeros((2, len(metadata.features)), np.float32))  # a row of floats each
