"""Experiences in SQLite or PostgreSQL: one schema, one set of migrations. No web framework in here: training reads it."""

from osml_serving.experience_store.address import DEFAULT_FILE, open_engine, store_url, told
from osml_serving.experience_store.store import Added, Store, Stored, StoreError
from osml_serving.experience_store.tables import EXPERIENCES

__all__ = ["DEFAULT_FILE", "EXPERIENCES", "Added", "Store", "StoreError", "Stored", "open_engine", "store_url", "told"]
