"""Traces, labels and training of the osml models. Kept out of the core package: it needs torch, Ray and MLflow."""
