"""The first version."""

from __future__ import annotations

from alembic import op
from sqlalchemy import insert

from harness.service import schema

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables, the head of an empty log, and the first edition."""
    schema.metadata.create_all(op.get_bind())
    op.execute(insert(schema.log_head).values(id=0, size=0, leaf="0" * 64))
    op.execute(insert(schema.edition).values(id=0, number=0))
