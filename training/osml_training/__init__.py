"""Traces, labels and training of the osml models. `osml_training.collect` needs pyarrow alone; training needs torch."""
