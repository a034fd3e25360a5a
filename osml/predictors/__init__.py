"""Models A, A', B, B' and C on a node: features out of observations, ONNX sessions, the manifest of shipped models.

onnxruntime (extra `osml[models]`) is imported where a session is opened, not before.
"""

from osml.predictors.features import FEATURES, PARAMETERS, feature_row, feature_rows
from osml.predictors.manifest import Manifest, ManifestEntry, find_model, load_manifest, models_folder
from osml.predictors.metadata import ANY_PLATFORM, KINDS, FeatureSpec, Margin, ModelMetadata, OutputSpec, read_metadata
from osml.predictors.q_function import QFunction, load_q_function
from osml.predictors.session import Prediction, Predictor, load_predictor

__all__ = [
    "ANY_PLATFORM", "FEATURES", "KINDS", "PARAMETERS", "FeatureSpec", "Manifest", "ManifestEntry", "Margin",
    "ModelMetadata", "OutputSpec", "Prediction", "Predictor", "QFunction", "feature_row", "feature_rows",
    "find_model", "load_manifest", "load_predictor", "load_q_function", "models_folder", "read_metadata",
]  # fmt: skip
