"""Experiences in SQLite or PostgreSQL: one schema, one set of migrations.

No web framework in here: training reads it. SQLAlchemy takes half a second to import, so each part is imported where it
is needed.
"""
