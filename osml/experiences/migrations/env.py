"""What alembic runs: `address.migrate` hands it an open connection."""

from __future__ import annotations

from alembic import context

from osml.experiences.tables import METADATA

connection = context.config.attributes["connection"]
context.configure(
    connection=connection, target_metadata=METADATA, transactional_ddl=True, transaction_per_migration=False
)
with context.begin_transaction():
    context.run_migrations()
