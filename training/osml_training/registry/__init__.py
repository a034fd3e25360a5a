"""Runs and versions of models: MLflow where there is one, the folder of shipped models everywhere."""
