"""Results that repeat each other.

What rows are compared by is made of the logs, so it is not filled in here: workers check such rows again, and
`tta board reindex` makes them again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add what rows are found and compared by, and a table for what comes of it."""
    op.add_column("board_row", sa.Column("digest", sa.String(length=64), nullable=True))
    op.add_column("board_row", sa.Column("repeats", sa.String(length=64), nullable=True))
    op.create_index(op.f("ix_board_row_digest"), "board_row", ["digest"], unique=False)
    op.create_index(
        "ix_board_row_repeats",
        "board_row",
        ["repeats"],
        unique=False,
        postgresql_where=sa.text("repeats IS NOT NULL"),
        sqlite_where=sa.text("repeats IS NOT NULL"),
    )
    op.create_table(
        "repeatable",
        sa.Column("verdict", sa.String(length=32), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["verdict"], ["verdict.id"], name=op.f("fk_repeatable_verdict")),
        sa.PrimaryKeyConstraint("verdict", name=op.f("pk_repeatable")),
    )
    op.create_table(
        "repetition",
        sa.Column("original", sa.String(length=32), nullable=False),
        sa.Column("again", sa.String(length=32), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["again"], ["verdict.id"], name=op.f("fk_repetition_again")),
        sa.ForeignKeyConstraint(["original"], ["verdict.id"], name=op.f("fk_repetition_original")),
        sa.PrimaryKeyConstraint("original", "again", name=op.f("pk_repetition")),
    )
    op.create_index(op.f("ix_repetition_again"), "repetition", ["again"], unique=False)
