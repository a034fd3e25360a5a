"""The table of canaries that the server took back."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "canary_returns",
        sa.Column("canary", sa.String(63), primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("why", sa.String(1000), nullable=False),
    )
