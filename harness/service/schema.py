"""The tables. The logs in the blobs are the truth; here are the workflow, and rows derived from logs.

Times end in `_ms`: milliseconds since 1970, UTC. Ids are `harness.base.ids`, digests SHA-256 in hexadecimal. Documents
are canonical JSON, as text, so that equal ones are equal bytes in both databases.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


WORD_LENGTH = 100


def _id(name: str = "id") -> Column[str]:
    return Column(name, String(32), primary_key=True)


def _to(name: str, target: str, *, is_optional: bool = False, is_key: bool = False) -> Column[str]:
    return Column(name, String(32), ForeignKey(f"{target}.id"), nullable=is_optional, primary_key=is_key)


def _text(name: str, *, is_optional: bool = False, length: int = 200) -> Column[str]:
    return Column(name, String(length), nullable=is_optional)


def _digest(name: str, *, is_optional: bool = False, is_key: bool = False) -> Column[str]:
    return Column(name, String(64), nullable=is_optional, primary_key=is_key)


def _ms(name: str, *, is_optional: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=is_optional)


def _ordered(length: int) -> String:
    """A text that sorts by its code points in both databases."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


# People.

organisation = Table(
    "organisation",
    metadata,
    _id(),
    Column(
        "name", String(100), nullable=False, unique=True
    ),  # the submitter's folder: `submission.layout.NAME_PATTERN`
    Column("name_key", String(100), nullable=False, unique=True),  # in lower case: two teams must not look alike
    _ms("created_ms"),
    Column("quota_bytes", BigInteger),  # None: as the settings say
)

person = Table(
    "person",
    metadata,
    _id(),
    _to("organisation", "organisation"),
    Column("name", String(100), nullable=False, unique=True),
    _text("email", is_optional=True),
    Column("subject", String(200), unique=True),  # as the proxy or the identity provider names this person
    Column("is_auditor", Boolean, nullable=False),
    Column("is_organiser", Boolean, nullable=False),
    _ms("created_ms"),
    _ms("disabled_ms", is_optional=True),
)

token = Table(
    "token",
    metadata,
    _id(),
    _to("person", "person"),
    _digest("sha256"),
    _text("label"),
    _text("scopes"),  # separated by blanks
    _ms("created_ms"),
    _ms("expires_ms", is_optional=True),
    _ms("used_ms", is_optional=True),
    _ms("revoked_ms", is_optional=True),
    UniqueConstraint("sha256"),
)

session = Table(
    "session",
    metadata,
    _digest("sha256", is_key=True),
    _to("token", "token"),  # with which it began: it is for no more than that one, and ends with it
    _ms("created_ms"),
    _ms("expires_ms"),
    Index(None, "expires_ms"),
)

# Files.

blob = Table(
    "blob",
    metadata,
    _digest("sha256", is_key=True),
    _count("num_bytes"),
    _ms("created_ms"),
)

# Who has sent a blob's bytes: knowing the digest of another team's file gives nobody that file.
blob_holder = Table(
    "blob_holder",
    metadata,
    Column("sha256", String(64), ForeignKey("blob.sha256"), primary_key=True),
    _to("organisation", "organisation", is_key=True),
)

# A resumable upload; how much of it has arrived is the size of its file.
upload = Table(
    "upload",
    metadata,
    _id(),
    _to("person", "person"),
    _to("organisation", "organisation"),
    _digest("sha256"),
    _count("num_bytes"),
    _ms("created_ms"),
    _ms("expires_ms"),
    Index(None, "expires_ms"),
    Index(None, "organisation"),
)

# Submissions.

round = Table(
    "round",
    metadata,
    _id(),
    Column("name", String(100), nullable=False, unique=True),
    _text("ruleset"),
    _digest("ruleset_digest"),
    Column("is_reviewed", Boolean, nullable=False),  # otherwise what passes the check is published
    _ms("opens_ms"),
    _ms("closes_ms", is_optional=True),  # None: it stays open, and each result is reviewed as it comes
    _ms("objections_until_ms", is_optional=True),
    _ms("publish_ms", is_optional=True),  # None: a result is published when it is accepted
    _ms("created_ms"),
)

submission = Table(
    "submission",
    metadata,
    _id(),
    _to("round", "round"),
    _to("organisation", "organisation"),
    _to("person", "person"),
    _text("benchmark"),
    _text("division"),  # in which it counts: another than the claim's, if it was moved to open
    _text("category"),
    _text("system"),
    _text("accelerator", length=300),
    _digest("manifest_sha256"),  # of its list of files, as `submission.claim.digest_lines` writes them
    _count("num_files"),
    _count("num_bytes"),
    _text("state", length=30),
    Column("seq", Integer, nullable=False),  # how often its state has changed
    _to("supersedes", "submission", is_optional=True),
    _to("superseded_by", "submission", is_optional=True),
    Column("verdict", String(32)),  # the one that counts: of `verdict`, which refers to this table
    _text("idempotency_key", is_optional=True),
    _ms("created_ms"),
    _ms("received_ms", is_optional=True),
    _ms("published_ms", is_optional=True),
    _ms("changed_ms"),
    UniqueConstraint("organisation", "manifest_sha256"),
    UniqueConstraint("organisation", "idempotency_key"),
    Index(None, "round", "state"),
    Index(None, "changed_ms", "id"),
    Index(None, "organisation", "changed_ms", "id"),
)

submission_file = Table(
    "submission_file",
    metadata,
    _to("submission", "submission", is_key=True),
    Column("path", String(500), primary_key=True),  # as in the tree
    _digest("sha256"),
    _count("num_bytes"),
    Index(None, "sha256"),
)

verdict = Table(
    "verdict",
    metadata,
    _id(),
    _to("submission", "submission"),
    _text("ruleset"),
    _digest("ruleset_digest"),
    _text("checker"),  # the version of `tta`
    _text("division"),  # by which it was judged
    Column("is_valid", Boolean, nullable=False),
    Column("num_errors", Integer, nullable=False),
    Column("num_warnings", Integer, nullable=False),
    Column("document", Text, nullable=False),  # the findings
    Column("cpu_s", Float, nullable=False),
    _ms("at_ms"),
    UniqueConstraint("submission", "ruleset_digest", "checker", "division"),
    Index(None, "ruleset_digest", "ruleset"),
)

# Derived: made of the blobs and a verdict, and made again by `tta board reindex`, byte for byte.
board_row = Table(
    "board_row",
    metadata,
    Column("verdict", String(32), ForeignKey("verdict.id"), primary_key=True),
    _to("submission", "submission"),
    _text("benchmark"),
    _text("division"),
    _text("ruleset"),
    _digest("ruleset_digest"),
    _text("accelerator", length=300),
    Column("num_accelerators", BigInteger),
    Column("seconds", Float),  # the score; None: no score, or not valid
    Column("low", Float),
    Column("high", Float),
    Column("errors", Text, nullable=False),  # of the score's logarithm, as `harness.base.stats.Estimate` has them
    Column("measured_seconds", Float),
    Column("samples", Float),
    Column("joules", Float),
    Column("usd", Float),
    Column("words", _ordered(1000), nullable=False),  # of its names: see `harness.service.results.words_of`
    _text("witness", length=2),  # W0, W1 or W2: see `harness.submission.receipts.witness_class`
    Column("document", Text, nullable=False),
    _digest("digest", is_optional=True),  # of its logs; None: of a row of version 0001, until it is made again
    _digest("repeats", is_optional=True),  # the digest of the logs that it repeats; None: of none
    Index(None, "digest"),
    Index(
        "ix_board_row_repeats",
        "repeats",
        postgresql_where=text("repeats IS NOT NULL"),
        sqlite_where=text("repeats IS NOT NULL"),
    ),
    Index(
        "ix_board_row_ranked",
        "benchmark",
        "division",
        "ruleset_digest",
        "seconds",
        "verdict",
        postgresql_where=text("seconds IS NOT NULL"),
        sqlite_where=text("seconds IS NOT NULL"),
    ),
    Index(
        "ix_board_row_words",
        "submission",
        "verdict",
        "words",
        postgresql_where=text("seconds IS NOT NULL"),
        sqlite_where=text("seconds IS NOT NULL"),
    ),
)

# Derived: what a row is compared by with what it repeats, and with what repeats it. Not in the row: a page of a table
# reads and sorts rows, and is slower the wider they are.
repeatable = Table(
    "repeatable",
    metadata,
    Column("verdict", String(32), ForeignKey("verdict.id"), primary_key=True),
    Column("document", Text, nullable=False),  # `harness.scoring.repetition.Repeatable.record`
)

# Derived from two rows: what one that repeats another says of it, whoever may see which of them.
repetition = Table(
    "repetition",
    metadata,
    Column("original", String(32), ForeignKey("verdict.id"), primary_key=True),
    Column("again", String(32), ForeignKey("verdict.id"), primary_key=True),
    Column("document", Text, nullable=False),  # see `harness.service.repetitions`
    Index(None, "again"),
)

# Derived: the same words, by word.
word = Table(
    "word",
    metadata,
    Column("word", _ordered(WORD_LENGTH), primary_key=True),
    _to("submission", "submission", is_key=True),
    Index(None, "submission"),
)

# Derived: what the page of the result shows below its state, as compressed HTML.
page = Table(
    "page",
    metadata,
    Column("verdict", String(32), ForeignKey("verdict.id"), primary_key=True),
    Column("html", LargeBinary, nullable=False),
)

# Derived from all rows of a table together: the ranks that a row may have, at 95 %.
position = Table(
    "position",
    metadata,
    Column("verdict", String(32), ForeignKey("verdict.id"), primary_key=True),
    Column("first", Integer, nullable=False),
    Column("last", Integer, nullable=False),
)

# Derived: best over time, for a table and for each accelerator in it ("" for all).
record = Table(
    "record",
    metadata,
    Column("benchmark", String(200), primary_key=True),
    Column("division", String(200), primary_key=True),
    Column("ruleset_digest", String(64), primary_key=True),
    Column("accelerator", String(300), primary_key=True),
    _to("submission", "submission", is_key=True),
    _ms("at_ms"),
    Column("seconds", Float, nullable=False),
)

# One row: how often what everybody sees of the tables has changed.
edition = Table(
    "edition",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    _count("number"),
)

# Review.

objection = Table(
    "objection",
    metadata,
    _id(),
    _to("submission", "submission"),
    _to("person", "person"),
    _to("organisation", "organisation"),
    _text("rule"),  # a check's code, or the name of a rule
    _text("path", is_optional=True, length=500),
    Column("line", Integer),
    Column("text", Text, nullable=False),
    _text("state", length=20),  # open, upheld, dismissed, withdrawn
    _ms("opened_ms"),
    Column("decided_by", String(32), ForeignKey("person.id")),
    Column("decision", Text),
    _ms("decided_ms", is_optional=True),
    Index(None, "submission", "state"),
)

comment = Table(
    "comment",
    metadata,
    _id(),
    _to("submission", "submission"),
    Column("objection", String(32), ForeignKey("objection.id")),
    _to("person", "person"),
    Column("text", Text, nullable=False),
    _ms("at_ms"),
    Index(None, "submission", "at_ms"),
)

# The first of the two pairs of eyes that some decisions need.
proposal = Table(
    "proposal",
    metadata,
    _id(),
    _to("submission", "submission"),
    _text("action", length=30),
    _to("person", "person"),
    Column("reason", Text, nullable=False),
    _ms("at_ms"),
    _text("state", length=20),  # open, carried, withdrawn
    Index(None, "submission", "state"),
)

# The log.

event = Table(
    "event",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),  # from 0, without a gap
    _ms("at_ms"),
    Column("actor", String(32)),  # a person; None: the service
    _text("kind", length=60),
    _text("subject", length=64),
    Column("document", Text, nullable=False),  # its canonical JSON, as committed to
    Column("salt", String(32), nullable=False),
    _digest("leaf"),
    Index(None, "subject", "seq"),
)

# One row: how many leaves there are, and the hash of the last one. Who changes it is the only one who appends.
log_head = Table(
    "log_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    _count("size"),
    _digest("leaf"),
)

tile = Table(
    "tile",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    _digest("root"),
    Column("hashes", LargeBinary, nullable=False),  # full tiles only
)

checkpoint = Table(
    "checkpoint",
    metadata,
    Column("size", BigInteger, primary_key=True, autoincrement=False),
    _digest("root"),
    Column("note", Text, nullable=False),
    _ms("at_ms"),
)

cosignature = Table(
    "cosignature",
    metadata,
    Column("size", BigInteger, ForeignKey("checkpoint.size"), primary_key=True, autoincrement=False),
    Column("key", String(200), primary_key=True),  # the fingerprint
    _text("witness"),  # the organisation whose it is: of each, one, so that none keeps the others out
    Column("signature", Text, nullable=False),
    _ms("at_ms"),
)

# Work.

job = Table(
    "job",
    metadata,
    _id(),
    _text("kind", length=30),
    _text("subject", length=700),
    _text("owner", length=64),  # for whom it is: turns are taken
    _text("state", length=10),  # ready, leased, done, failed
    Column("priority", Integer, nullable=False),  # smaller is sooner
    Column("turn", BigInteger, nullable=False),  # among those of one priority: smaller is sooner
    _ms("run_after_ms"),
    Column("attempts", Integer, nullable=False),
    _text("lease_owner", is_optional=True),
    _ms("lease_until_ms", is_optional=True),
    Column("fencing", Integer, nullable=False),  # grows with each lease: who had an older one can no longer finish it
    _text("error", is_optional=True, length=2000),
    _ms("created_ms"),
    _ms("ended_ms", is_optional=True),
    Index("ix_job_ready", "priority", "turn", "id", postgresql_where=text("state = 'ready'"),
          sqlite_where=text("state = 'ready'")),
    Index("ix_job_leased", "lease_until_ms", postgresql_where=text("state = 'leased'"),
          sqlite_where=text("state = 'leased'")),
    Index("uq_job_waiting", "kind", "subject", unique=True, postgresql_where=text("state = 'ready'"),
          sqlite_where=text("state = 'ready'")),
    Index(None, "subject", "kind"),
)  # fmt: skip

# The last turn that was given to an owner, and as "" the last one that was taken: who has waiting jobs takes turns with
# the others, and a newcomer does not wait behind all of them.
turn = Table(
    "turn",
    metadata,
    Column("owner", String(64), primary_key=True),
    Column("last", BigInteger, nullable=False),
)

# Witnessed runs. What was received of a ticket are events about it.

campaign = Table(
    "campaign",
    metadata,
    _id(),
    _to("round", "round"),
    _to("organisation", "organisation"),
    _to("person", "person"),
    _text("benchmark"),
    _text("division"),
    _digest("system_sha256"),
    _digest("code_sha256"),
    _digest("config_sha256"),
    Column("num_runs", Integer, nullable=False),
    _digest("secret"),  # 32 bytes, published when it is closed
    _ms("opened_ms"),
    _ms("expires_ms"),
    _ms("closed_ms", is_optional=True),
    # What is tried in a round is tried once: a campaign goes on, another of the same does not replace it.
    UniqueConstraint(
        "round", "organisation", "benchmark", "division", "system_sha256", "code_sha256", "config_sha256",
        name="uq_campaign_identity",
    ),
)  # fmt: skip

ticket = Table(
    "ticket",
    metadata,
    _id(),
    _to("campaign", "campaign"),
    Column("number", Integer, nullable=False),  # from 1
    _digest("server_nonce"),
    _digest("client_nonce"),
    Column("seed", BigInteger, nullable=False),
    _digest("host_sha256"),
    _text("state", length=20),  # issued, started; then for good: finished, missed, aborted, lost, expired, void
    Column("is_sealed", Boolean, nullable=False),  # for a run without a network: it may begin until it must have ended
    _text("reason", is_optional=True, length=500),
    Column("num_heads", Integer, nullable=False),  # the number of the last head
    _ms("heard_ms"),  # when it was issued, or the last head came
    _ms("issued_ms"),
    _ms("start_by_ms"),
    _ms("end_by_ms"),
    _ms("ended_ms", is_optional=True),
    _digest("log_sha256", is_optional=True),
    UniqueConstraint("campaign", "number"),
    UniqueConstraint("campaign", "client_nonce"),
    Index("ix_ticket_open", "state", "start_by_ms", postgresql_where=text("ended_ms IS NULL"),
          sqlite_where=text("ended_ms IS NULL")),
)  # fmt: skip

# Hooks. What is owed to them is in the log: a hook's `next_seq` says how far into it deliveries were made of events.

hook = Table(
    "hook",
    metadata,
    _id(),
    _to("organisation", "organisation", is_optional=True),  # None: of the organisers, for what everybody sees
    Column("url", String(500), nullable=False),
    Column("secret", String(100), nullable=False),  # signs, so it cannot be kept as a digest
    Column("old_secret", String(100)),  # signs, too, until then
    _ms("old_until_ms", is_optional=True),
    Column("next_seq", BigInteger, nullable=False),
    _ms("busy_until_ms"),  # one delivery at a time
    _ms("created_ms"),
    _ms("failing_since_ms", is_optional=True),
    _ms("disabled_ms", is_optional=True),
    _text("reason", is_optional=True, length=500),  # why it was disabled
    Index(None, "organisation"),
)

delivery = Table(
    "delivery",
    metadata,
    _id(),  # is the `webhook-id` of every attempt
    _to("hook", "hook"),
    Column("seq", BigInteger, ForeignKey("event.seq")),  # None: a test
    _text("kind", length=60),
    _text("state", length=10),  # waiting, delivered, given up
    Column("attempts", Integer, nullable=False),
    _ms("next_ms"),
    Column("status", Integer),  # of the last answer
    _text("reason", is_optional=True, length=500),  # why the last attempt failed
    _ms("created_ms"),
    _ms("ended_ms", is_optional=True),
    Index(None, "hook", "id"),
    Index("ix_delivery_waiting", "next_ms", "id", postgresql_where=text("state = 'waiting'"),
          sqlite_where=text("state = 'waiting'")),
)  # fmt: skip

# Sign-ins at the identity provider that have begun: each ends once.
sign_in = Table(
    "sign_in",
    metadata,
    _digest("state_sha256", is_key=True),
    _text("nonce"),
    _text("verifier"),
    _ms("expires_ms"),
    Index(None, "expires_ms"),
)
