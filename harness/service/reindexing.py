"""Everything that is derived, made again from blobs and rules: the same bytes, or a difference that is shown.

Only verdicts by this `tta` and by rulesets that it has can be made again; what others said stays as they said it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, select

from harness import __version__
from harness.log.events import canonical_json
from harness.service import editions, jobs, ranking, repetitions, results, schema, submissions, witnessing
from harness.service.instance import Instance
from harness.service.judging import claimed_in, has_receipts, judge, laid_out
from harness.service.states import State
from harness.service.submitting import files_of

_row, _verdict = schema.board_row, schema.verdict


def differences(instance: Instance, *, is_mended: bool) -> Iterator[str]:
    """Yield what is not as it would be made now; with `is_mended`, write it.

    Raises:
        OutputError: a result cannot be laid out.
    """
    yield from _of_rows(instance, is_mended=is_mended)
    yield from _of_repetitions(instance, is_mended=is_mended)
    yield from _of_tables(instance, is_mended=is_mended)


def _of_rows(instance: Instance, *, is_mended: bool) -> Iterator[str]:
    own = {instance.ruleset(name).digest: instance.ruleset(name) for name in instance.settings.rulesets}
    with instance.database.read() as connection:
        query = select(_verdict.c.id, _verdict.c.submission, _verdict.c.ruleset_digest, _verdict.c.checker)
        verdicts = connection.execute(query.order_by(_verdict.c.id)).all()
    for verdict, submission, digest, checker in verdicts:
        if digest not in own or checker != __version__:
            continue
        with instance.database.read() as connection:
            files = files_of(connection, submission)
            stored = connection.execute(_verdict.select().where(_verdict.c.id == verdict)).one()
        with laid_out(instance, files, verdict) as tree:
            with instance.database.read() as connection:
                current = submissions.find(connection, submission, None)
                claimed = claimed_in(tree, files) if has_receipts(files) else ([], [])
                faults = list(witnessing.receipt_faults(connection, current, *claimed))
            judgement = judge(tree, files, own[digest], stored.at_ms, stored.division, submission, faults)
        with instance.database.write() as connection:
            wanted = results.row_values(connection, instance, submission, verdict, judgement)
            found = connection.execute(_row.select().where(_row.c.verdict == verdict)).mappings().one_or_none()
            if canonical_json(list(judgement.findings)) != stored.document:
                yield f"verdict {verdict}: the check finds something else now than it did on its day"
            page = connection.execute(schema.page.select().where(schema.page.c.verdict == verdict)).one_or_none()
            if (b"" if page is None else bytes(page.html)) != results.page_bytes(judgement.page):
                yield f"page of verdict {verdict}: is not what the logs make of it"
                if is_mended:
                    results.write_page(connection, verdict, judgement)
            table = schema.repeatable
            facts = connection.execute(select(table.c.document).where(table.c.verdict == verdict)).scalar()
            if (facts or "") != results.repeatable_text(judgement):
                yield f"what verdict {verdict} is compared by: is not what the logs make of it"
                if is_mended:
                    results.write_repeatable(connection, verdict, judgement)
            words = "" if wanted is None else wanted["words"]
            if results.indexed_words(connection, submission) != set(words.split()):
                yield f"words of submission {submission}: are not those of its names"
                if is_mended:
                    results.write_words(connection, submission, words)
                    editions.begin(connection)
            if wanted == (None if found is None else dict(found)):
                continue
            yield f"row of verdict {verdict}: {_first_difference(wanted, found)}"
            if is_mended:
                results.write_row(connection, instance, current, verdict, judgement)
                editions.begin(connection)


def _first_difference(wanted: dict[str, Any] | None, found: Any) -> str:
    if found is None or wanted is None:
        return "is missing" if found is None else "is there without a result"
    name = next(name for name in wanted if wanted[name] != found[name])
    return f"{name} is not what the logs make of it"


def _of_repetitions(instance: Instance, *, is_mended: bool) -> Iterator[str]:
    """Yield what is not as it would be made now of results that repeat each other."""
    table, pair = schema.submission, schema.repetition
    repeating = select(_row.c.submission).join(table, results.counts()).where(_row.c.repeats.is_not(None))
    known = select(_verdict.c.submission).join(pair, pair.c.again == _verdict.c.id)
    with instance.database.read() as connection:
        chosen = sorted({*connection.execute(repeating).scalars(), *connection.execute(known).scalars()})
    seen: set[tuple[str, str]] = set()
    for submission in chosen:
        with instance.database.read() as connection:
            found = repetitions.pairs(connection, submission)
            stored = repetitions.stored(connection, submission)
        documents = repetitions.compared(found)
        wanted = repetitions.by_verdicts(found, documents)
        different = {key for key in {*wanted, *stored} - seen if wanted.get(key) != stored.get(key)}
        for original, again in sorted(different):
            yield f"what verdict {again} says of verdict {original}: is not what their logs make of it"
        seen |= different
        if different and is_mended:
            with instance.database.write() as connection:
                repetitions.write(connection, submission, found, documents)


def _of_tables(instance: Instance, *, is_mended: bool) -> Iterator[str]:
    with instance.database.write() as connection:
        wanted_positions: dict[str, tuple[Any, Any]] = {}
        wanted_records = set()
        keys = ranking.tables(connection)
        for key in keys:
            for item in ranking.positions(ranking.scores(connection, key)):
                wanted_positions[str(item["verdict"])] = (item["first"], item["last"])
            wanted_records |= {tuple(item.values()) for item in ranking.records(connection, key)}
        found_positions = {row.verdict: (row.first, row.last) for row in connection.execute(schema.position.select())}
        table = schema.record
        order = ("benchmark", "division", "ruleset_digest", "accelerator", "submission", "at_ms", "seconds")
        found_records = {tuple(row) for row in connection.execute(select(*(table.c[name] for name in order)))}
        for verdict in sorted({*wanted_positions, *found_positions}):
            if wanted_positions.get(verdict) != found_positions.get(verdict):
                yield f"ranks of verdict {verdict}: are not what the rows make of them"
        if wanted_records != found_records:
            yield f"{len(wanted_records ^ found_records):,} records over time are not what the rows make of them"
        if is_mended:
            _write_tables(connection, keys)


def _write_tables(connection: Connection, keys: list[ranking.TableKey]) -> None:
    for key in keys:  # before anything is deleted: a worker has one of them at most, so neither waits for the other
        ranking.hold(connection, key)
    connection.execute(schema.position.delete())
    connection.execute(schema.record.delete())
    for key in keys:
        ranking.write_table(connection, key)


def judge_again(instance: Instance) -> int:
    """Have every submission checked that has no verdict by the present rules of its round and this `tta`, or whose row
    lacks what an older one did not write.

    What counts meanwhile is the verdict before. Return how many there are.
    """
    table, now_ms = schema.submission, instance.now_ms()
    states = [state for state in State if state not in (State.DRAFT, State.WITHDRAWN, State.RECEIVED)]
    with instance.database.write() as connection:
        rounds = connection.execute(select(schema.round.c.id, schema.round.c.ruleset)).all()
        count = 0
        for round_id, name in rounds:
            if name not in instance.settings.rulesets:
                continue
            has_verdict = select(_verdict.c.id).where(
                _verdict.c.submission == table.c.id,
                _verdict.c.ruleset_digest == instance.ruleset(name).digest,
                _verdict.c.checker == __version__,
                _verdict.c.division == table.c.division,
                ~select(_row.c.verdict).where(_row.c.verdict == _verdict.c.id, _row.c.digest.is_(None)).exists(),
            )
            missing = select(table.c.id, table.c.organisation).where(
                table.c.round == round_id, table.c.state.in_(states), ~has_verdict.exists()
            )
            for submission, organisation in connection.execute(missing.order_by(table.c.id)).all():
                jobs.add(connection, instance.new_id(), jobs.CHECK, submission, organisation, now_ms)
                count += 1
    return count
