"""Traces, labels and training of the osml models. `osml_training.data` needs pyarrow alone; training needs torch."""
