"""${message}."""

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """${upgrades if upgrades else "Change the schema; expand, migrate, or contract."}"""
