"""The table of experiences."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "experiences",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("node", sa.String(63), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("time_s", sa.Double, nullable=False),
        sa.Column("platform", sa.String(200), nullable=False),
        sa.Column("received_s", sa.Double, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("node", "seq", "time_s", name="experiences_once"),
        sqlite_autoincrement=True,
    )
    op.create_index("experiences_by_platform", "experiences", ["platform", "id"])
    op.create_index("experiences_by_age", "experiences", ["received_s"])
