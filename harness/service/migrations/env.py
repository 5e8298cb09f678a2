"""What Alembic runs: the chain of versions, on the connection that `harness.service.migrating` gives it."""

from alembic import context

from harness.service.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite cannot change a column in place
)
with context.begin_transaction():
    context.run_migrations()
