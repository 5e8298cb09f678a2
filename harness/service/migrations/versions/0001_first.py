"""The first version."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables, the head of an empty log, and the first edition."""
    op.create_table(
        "blob",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("num_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_blob")),
    )
    op.create_table(
        "checkpoint",
        sa.Column("size", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("root", sa.String(length=64), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("size", name=op.f("pk_checkpoint")),
    )
    op.create_table(
        "edition",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_edition")),
    )
    op.create_table(
        "event",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.String(length=32), nullable=True),
        sa.Column("kind", sa.String(length=60), nullable=False),
        sa.Column("subject", sa.String(length=64), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("salt", sa.String(length=32), nullable=False),
        sa.Column("leaf", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_event")),
    )
    op.create_index(op.f("ix_event_subject_seq"), "event", ["subject", "seq"], unique=False)
    op.create_table(
        "job",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=30), nullable=False),
        sa.Column("subject", sa.String(length=700), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("turn", sa.BigInteger(), nullable=False),
        sa.Column("run_after_ms", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.String(length=200), nullable=True),
        sa.Column("lease_until_ms", sa.BigInteger(), nullable=True),
        sa.Column("fencing", sa.Integer(), nullable=False),
        sa.Column("error", sa.String(length=2000), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job")),
    )
    op.create_index(
        "ix_job_leased",
        "job",
        ["lease_until_ms"],
        unique=False,
        postgresql_where=sa.text("state = 'leased'"),
        sqlite_where=sa.text("state = 'leased'"),
    )
    op.create_index(
        "ix_job_ready",
        "job",
        ["priority", "turn", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'ready'"),
        sqlite_where=sa.text("state = 'ready'"),
    )
    op.create_index(op.f("ix_job_subject_kind"), "job", ["subject", "kind"], unique=False)
    op.create_index(
        "uq_job_waiting",
        "job",
        ["kind", "subject"],
        unique=True,
        postgresql_where=sa.text("state = 'ready'"),
        sqlite_where=sa.text("state = 'ready'"),
    )
    op.create_table(
        "log_head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("leaf", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_log_head")),
    )
    op.create_table(
        "organisation",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("name_key", sa.String(length=100), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("quota_bytes", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_organisation")),
        sa.UniqueConstraint("name", name=op.f("uq_organisation_name")),
        sa.UniqueConstraint("name_key", name=op.f("uq_organisation_name_key")),
    )
    op.create_table(
        "round",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("ruleset", sa.String(length=200), nullable=False),
        sa.Column("ruleset_digest", sa.String(length=64), nullable=False),
        sa.Column("is_reviewed", sa.Boolean(), nullable=False),
        sa.Column("opens_ms", sa.BigInteger(), nullable=False),
        sa.Column("closes_ms", sa.BigInteger(), nullable=True),
        sa.Column("objections_until_ms", sa.BigInteger(), nullable=True),
        sa.Column("publish_ms", sa.BigInteger(), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_round")),
        sa.UniqueConstraint("name", name=op.f("uq_round_name")),
    )
    op.create_table(
        "sign_in",
        sa.Column("state_sha256", sa.String(length=64), nullable=False),
        sa.Column("nonce", sa.String(length=200), nullable=False),
        sa.Column("verifier", sa.String(length=200), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("state_sha256", name=op.f("pk_sign_in")),
    )
    op.create_index(op.f("ix_sign_in_expires_ms"), "sign_in", ["expires_ms"], unique=False)
    op.create_table(
        "tile",
        sa.Column("level", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("root", sa.String(length=64), nullable=False),
        sa.Column("hashes", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("level", "number", name=op.f("pk_tile")),
    )
    op.create_table(
        "turn",
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_turn")),
    )
    op.create_table(
        "blob_holder",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("organisation", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["organisation"], ["organisation.id"], name=op.f("fk_blob_holder_organisation")),
        sa.ForeignKeyConstraint(["sha256"], ["blob.sha256"], name=op.f("fk_blob_holder_sha256")),
        sa.PrimaryKeyConstraint("sha256", "organisation", name=op.f("pk_blob_holder")),
    )
    op.create_table(
        "cosignature",
        sa.Column("size", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("witness", sa.String(length=200), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["size"], ["checkpoint.size"], name=op.f("fk_cosignature_size")),
        sa.PrimaryKeyConstraint("size", "key", name=op.f("pk_cosignature")),
    )
    op.create_table(
        "hook",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("organisation", sa.String(length=32), nullable=True),
        sa.Column("url", sa.String(length=500), nullable=False),
        sa.Column("secret", sa.String(length=100), nullable=False),
        sa.Column("old_secret", sa.String(length=100), nullable=True),
        sa.Column("old_until_ms", sa.BigInteger(), nullable=True),
        sa.Column("next_seq", sa.BigInteger(), nullable=False),
        sa.Column("busy_until_ms", sa.BigInteger(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("failing_since_ms", sa.BigInteger(), nullable=True),
        sa.Column("disabled_ms", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.String(length=500), nullable=True),
        sa.ForeignKeyConstraint(["organisation"], ["organisation.id"], name=op.f("fk_hook_organisation")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hook")),
    )
    op.create_index(op.f("ix_hook_organisation"), "hook", ["organisation"], unique=False)
    op.create_table(
        "person",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("organisation", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("email", sa.String(length=200), nullable=True),
        sa.Column("subject", sa.String(length=200), nullable=True),
        sa.Column("is_auditor", sa.Boolean(), nullable=False),
        sa.Column("is_organiser", sa.Boolean(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("disabled_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["organisation"], ["organisation.id"], name=op.f("fk_person_organisation")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_person")),
        sa.UniqueConstraint("name", name=op.f("uq_person_name")),
        sa.UniqueConstraint("subject", name=op.f("uq_person_subject")),
    )
    op.create_table(
        "campaign",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("round", sa.String(length=32), nullable=False),
        sa.Column("organisation", sa.String(length=32), nullable=False),
        sa.Column("person", sa.String(length=32), nullable=False),
        sa.Column("benchmark", sa.String(length=200), nullable=False),
        sa.Column("division", sa.String(length=200), nullable=False),
        sa.Column("system_sha256", sa.String(length=64), nullable=False),
        sa.Column("code_sha256", sa.String(length=64), nullable=False),
        sa.Column("config_sha256", sa.String(length=64), nullable=False),
        sa.Column("num_runs", sa.Integer(), nullable=False),
        sa.Column("secret", sa.String(length=64), nullable=False),
        sa.Column("opened_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.Column("closed_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["organisation"], ["organisation.id"], name=op.f("fk_campaign_organisation")),
        sa.ForeignKeyConstraint(["person"], ["person.id"], name=op.f("fk_campaign_person")),
        sa.ForeignKeyConstraint(["round"], ["round.id"], name=op.f("fk_campaign_round")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_campaign")),
        sa.UniqueConstraint(
            "round",
            "organisation",
            "benchmark",
            "division",
            "system_sha256",
            "code_sha256",
            "config_sha256",
            name="uq_campaign_identity",
        ),
    )
    op.create_table(
        "delivery",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("hook", sa.String(length=32), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=True),
        sa.Column("kind", sa.String(length=60), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_ms", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("reason", sa.String(length=500), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["hook"], ["hook.id"], name=op.f("fk_delivery_hook")),
        sa.ForeignKeyConstraint(["seq"], ["event.seq"], name=op.f("fk_delivery_seq")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_delivery")),
    )
    op.create_index(op.f("ix_delivery_hook_id"), "delivery", ["hook", "id"], unique=False)
    op.create_index(
        "ix_delivery_waiting",
        "delivery",
        ["next_ms", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'waiting'"),
        sqlite_where=sa.text("state = 'waiting'"),
    )
    op.create_table(
        "submission",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("round", sa.String(length=32), nullable=False),
        sa.Column("organisation", sa.String(length=32), nullable=False),
        sa.Column("person", sa.String(length=32), nullable=False),
        sa.Column("benchmark", sa.String(length=200), nullable=False),
        sa.Column("division", sa.String(length=200), nullable=False),
        sa.Column("category", sa.String(length=200), nullable=False),
        sa.Column("system", sa.String(length=200), nullable=False),
        sa.Column("accelerator", sa.String(length=300), nullable=False),
        sa.Column("manifest_sha256", sa.String(length=64), nullable=False),
        sa.Column("num_files", sa.BigInteger(), nullable=False),
        sa.Column("num_bytes", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=30), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("supersedes", sa.String(length=32), nullable=True),
        sa.Column("superseded_by", sa.String(length=32), nullable=True),
        sa.Column("verdict", sa.String(length=32), nullable=True),
        sa.Column("idempotency_key", sa.String(length=200), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("received_ms", sa.BigInteger(), nullable=True),
        sa.Column("published_ms", sa.BigInteger(), nullable=True),
        sa.Column("changed_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["organisation"], ["organisation.id"], name=op.f("fk_submission_organisation")),
        sa.ForeignKeyConstraint(["person"], ["person.id"], name=op.f("fk_submission_person")),
        sa.ForeignKeyConstraint(["round"], ["round.id"], name=op.f("fk_submission_round")),
        sa.ForeignKeyConstraint(["superseded_by"], ["submission.id"], name=op.f("fk_submission_superseded_by")),
        sa.ForeignKeyConstraint(["supersedes"], ["submission.id"], name=op.f("fk_submission_supersedes")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_submission")),
        sa.UniqueConstraint("organisation", "idempotency_key", name=op.f("uq_submission_organisation_idempotency_key")),
        sa.UniqueConstraint("organisation", "manifest_sha256", name=op.f("uq_submission_organisation_manifest_sha256")),
    )
    op.create_index(op.f("ix_submission_changed_ms_id"), "submission", ["changed_ms", "id"], unique=False)
    op.create_index(
        op.f("ix_submission_organisation_changed_ms_id"),
        "submission",
        ["organisation", "changed_ms", "id"],
        unique=False,
    )
    op.create_index(op.f("ix_submission_round_state"), "submission", ["round", "state"], unique=False)
    op.create_table(
        "token",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("person", sa.String(length=32), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("label", sa.String(length=200), nullable=False),
        sa.Column("scopes", sa.String(length=200), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=True),
        sa.Column("used_ms", sa.BigInteger(), nullable=True),
        sa.Column("revoked_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["person"], ["person.id"], name=op.f("fk_token_person")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token")),
        sa.UniqueConstraint("sha256", name=op.f("uq_token_sha256")),
    )
    op.create_table(
        "upload",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("person", sa.String(length=32), nullable=False),
        sa.Column("organisation", sa.String(length=32), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("num_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["organisation"], ["organisation.id"], name=op.f("fk_upload_organisation")),
        sa.ForeignKeyConstraint(["person"], ["person.id"], name=op.f("fk_upload_person")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_upload")),
    )
    op.create_index(op.f("ix_upload_expires_ms"), "upload", ["expires_ms"], unique=False)
    op.create_index(op.f("ix_upload_organisation"), "upload", ["organisation"], unique=False)
    op.create_table(
        "objection",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("submission", sa.String(length=32), nullable=False),
        sa.Column("person", sa.String(length=32), nullable=False),
        sa.Column("organisation", sa.String(length=32), nullable=False),
        sa.Column("rule", sa.String(length=200), nullable=False),
        sa.Column("path", sa.String(length=500), nullable=True),
        sa.Column("line", sa.Integer(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("opened_ms", sa.BigInteger(), nullable=False),
        sa.Column("decided_by", sa.String(length=32), nullable=True),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("decided_ms", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["decided_by"], ["person.id"], name=op.f("fk_objection_decided_by")),
        sa.ForeignKeyConstraint(["organisation"], ["organisation.id"], name=op.f("fk_objection_organisation")),
        sa.ForeignKeyConstraint(["person"], ["person.id"], name=op.f("fk_objection_person")),
        sa.ForeignKeyConstraint(["submission"], ["submission.id"], name=op.f("fk_objection_submission")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_objection")),
    )
    op.create_index(op.f("ix_objection_submission_state"), "objection", ["submission", "state"], unique=False)
    op.create_table(
        "proposal",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("submission", sa.String(length=32), nullable=False),
        sa.Column("action", sa.String(length=30), nullable=False),
        sa.Column("person", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.ForeignKeyConstraint(["person"], ["person.id"], name=op.f("fk_proposal_person")),
        sa.ForeignKeyConstraint(["submission"], ["submission.id"], name=op.f("fk_proposal_submission")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_proposal")),
    )
    op.create_index(op.f("ix_proposal_submission_state"), "proposal", ["submission", "state"], unique=False)
    op.create_table(
        "record",
        sa.Column("benchmark", sa.String(length=200), nullable=False),
        sa.Column("division", sa.String(length=200), nullable=False),
        sa.Column("ruleset_digest", sa.String(length=64), nullable=False),
        sa.Column("accelerator", sa.String(length=300), nullable=False),
        sa.Column("submission", sa.String(length=32), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["submission"], ["submission.id"], name=op.f("fk_record_submission")),
        sa.PrimaryKeyConstraint(
            "benchmark", "division", "ruleset_digest", "accelerator", "submission", name=op.f("pk_record")
        ),
    )
    op.create_table(
        "session",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["token"], ["token.id"], name=op.f("fk_session_token")),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_session")),
    )
    op.create_index(op.f("ix_session_expires_ms"), "session", ["expires_ms"], unique=False)
    op.create_table(
        "submission_file",
        sa.Column("submission", sa.String(length=32), nullable=False),
        sa.Column("path", sa.String(length=500), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("num_bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["submission"], ["submission.id"], name=op.f("fk_submission_file_submission")),
        sa.PrimaryKeyConstraint("submission", "path", name=op.f("pk_submission_file")),
    )
    op.create_index(op.f("ix_submission_file_sha256"), "submission_file", ["sha256"], unique=False)
    op.create_table(
        "ticket",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("campaign", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("server_nonce", sa.String(length=64), nullable=False),
        sa.Column("client_nonce", sa.String(length=64), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("host_sha256", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("is_sealed", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.String(length=500), nullable=True),
        sa.Column("num_heads", sa.Integer(), nullable=False),
        sa.Column("heard_ms", sa.BigInteger(), nullable=False),
        sa.Column("issued_ms", sa.BigInteger(), nullable=False),
        sa.Column("start_by_ms", sa.BigInteger(), nullable=False),
        sa.Column("end_by_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.Column("log_sha256", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(["campaign"], ["campaign.id"], name=op.f("fk_ticket_campaign")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ticket")),
        sa.UniqueConstraint("campaign", "client_nonce", name=op.f("uq_ticket_campaign_client_nonce")),
        sa.UniqueConstraint("campaign", "number", name=op.f("uq_ticket_campaign_number")),
    )
    op.create_index(
        "ix_ticket_open",
        "ticket",
        ["state", "start_by_ms"],
        unique=False,
        postgresql_where=sa.text("ended_ms IS NULL"),
        sqlite_where=sa.text("ended_ms IS NULL"),
    )
    op.create_table(
        "verdict",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("submission", sa.String(length=32), nullable=False),
        sa.Column("ruleset", sa.String(length=200), nullable=False),
        sa.Column("ruleset_digest", sa.String(length=64), nullable=False),
        sa.Column("checker", sa.String(length=200), nullable=False),
        sa.Column("division", sa.String(length=200), nullable=False),
        sa.Column("is_valid", sa.Boolean(), nullable=False),
        sa.Column("num_errors", sa.Integer(), nullable=False),
        sa.Column("num_warnings", sa.Integer(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("cpu_s", sa.Float(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["submission"], ["submission.id"], name=op.f("fk_verdict_submission")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verdict")),
        sa.UniqueConstraint(
            "submission",
            "ruleset_digest",
            "checker",
            "division",
            name=op.f("uq_verdict_submission_ruleset_digest_checker_division"),
        ),
    )
    op.create_index(op.f("ix_verdict_ruleset_digest_ruleset"), "verdict", ["ruleset_digest", "ruleset"], unique=False)
    op.create_table(
        "word",
        sa.Column(
            "word",
            sa.String(length=100).with_variant(sa.String(length=100, collation="C"), "postgresql"),
            nullable=False,
        ),
        sa.Column("submission", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["submission"], ["submission.id"], name=op.f("fk_word_submission")),
        sa.PrimaryKeyConstraint("word", "submission", name=op.f("pk_word")),
    )
    op.create_index(op.f("ix_word_submission"), "word", ["submission"], unique=False)
    op.create_table(
        "board_row",
        sa.Column("verdict", sa.String(length=32), nullable=False),
        sa.Column("submission", sa.String(length=32), nullable=False),
        sa.Column("benchmark", sa.String(length=200), nullable=False),
        sa.Column("division", sa.String(length=200), nullable=False),
        sa.Column("ruleset", sa.String(length=200), nullable=False),
        sa.Column("ruleset_digest", sa.String(length=64), nullable=False),
        sa.Column("accelerator", sa.String(length=300), nullable=False),
        sa.Column("num_accelerators", sa.BigInteger(), nullable=True),
        sa.Column("seconds", sa.Float(), nullable=True),
        sa.Column("low", sa.Float(), nullable=True),
        sa.Column("high", sa.Float(), nullable=True),
        sa.Column("errors", sa.Text(), nullable=False),
        sa.Column("measured_seconds", sa.Float(), nullable=True),
        sa.Column("samples", sa.Float(), nullable=True),
        sa.Column("joules", sa.Float(), nullable=True),
        sa.Column("usd", sa.Float(), nullable=True),
        sa.Column(
            "words",
            sa.String(length=1000).with_variant(sa.String(length=1000, collation="C"), "postgresql"),
            nullable=False,
        ),
        sa.Column("witness", sa.String(length=2), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["submission"], ["submission.id"], name=op.f("fk_board_row_submission")),
        sa.ForeignKeyConstraint(["verdict"], ["verdict.id"], name=op.f("fk_board_row_verdict")),
        sa.PrimaryKeyConstraint("verdict", name=op.f("pk_board_row")),
    )
    op.create_index(
        "ix_board_row_ranked",
        "board_row",
        ["benchmark", "division", "ruleset_digest", "seconds", "verdict"],
        unique=False,
        postgresql_where=sa.text("seconds IS NOT NULL"),
        sqlite_where=sa.text("seconds IS NOT NULL"),
    )
    op.create_index(
        "ix_board_row_words",
        "board_row",
        ["submission", "verdict", "words"],
        unique=False,
        postgresql_where=sa.text("seconds IS NOT NULL"),
        sqlite_where=sa.text("seconds IS NOT NULL"),
    )
    op.create_table(
        "comment",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("submission", sa.String(length=32), nullable=False),
        sa.Column("objection", sa.String(length=32), nullable=True),
        sa.Column("person", sa.String(length=32), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["objection"], ["objection.id"], name=op.f("fk_comment_objection")),
        sa.ForeignKeyConstraint(["person"], ["person.id"], name=op.f("fk_comment_person")),
        sa.ForeignKeyConstraint(["submission"], ["submission.id"], name=op.f("fk_comment_submission")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_comment")),
    )
    op.create_index(op.f("ix_comment_submission_at_ms"), "comment", ["submission", "at_ms"], unique=False)
    op.create_table(
        "page",
        sa.Column("verdict", sa.String(length=32), nullable=False),
        sa.Column("html", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["verdict"], ["verdict.id"], name=op.f("fk_page_verdict")),
        sa.PrimaryKeyConstraint("verdict", name=op.f("pk_page")),
    )
    op.create_table(
        "position",
        sa.Column("verdict", sa.String(length=32), nullable=False),
        sa.Column("first", sa.Integer(), nullable=False),
        sa.Column("last", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["verdict"], ["verdict.id"], name=op.f("fk_position_verdict")),
        sa.PrimaryKeyConstraint("verdict", name=op.f("pk_position")),
    )
    op.execute("INSERT INTO log_head (id, size, leaf) VALUES (0, 0, '" + "0" * 64 + "')")
    op.execute("INSERT INTO edition (id, number) VALUES (0, 0)")
