"""Alike findings are one with a count, and nothing is lost over it: number, order, severity, waiver, first and last."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from harness.findings import Finding, Severity, group_object, grouped, sort_key

SHAPES = ("seq is {}", "took {}.5 s; the limit is {} s", "no number")


def findings() -> st.SearchStrategy[list[Finding]]:
    """Of few codes, files, shapes and waivers, so that many form groups."""

    def made(code: str, severity: Severity, path: str, line: int | None, shape: str, waived: str | None) -> Finding:
        return Finding(code, "fault", severity, path, line, shape.replace("{}", str(line or 0)), {"line": line}, waived)

    one = st.builds(
        made,
        st.sampled_from(["LOG001", "TIM001"]),
        st.sampled_from(Severity),
        st.sampled_from(["a.txt", "b.txt"]),
        st.none() | st.integers(1, 60),
        st.sampled_from(SHAPES),
        st.none() | st.just("agreed"),
    )
    return st.lists(one, max_size=80)


def kind(item: Finding) -> tuple[object, ...]:
    return item.code, item.severity, item.path, item.waived, "seq" in item.message, "took" in item.message


@given(findings())
def test_the_counts_add_up_and_every_kind_is_there(found: list[Finding]) -> None:
    """Per code, severity, file, waiver and message: as many as there were, in one record."""
    records = [group_object(group) for group in grouped(found)]

    assert sum(group_object["count"] for group_object in records) == len(found)
    assert {kind(group.first): group.count for group in grouped(found)} == Counter(map(kind, found))
    for entry in records:
        members = [item for item in found if (item.code, item.waived) == (entry["code"], entry["waived"])]
        assert entry["severity"] in {item.severity.value for item in members}


@given(findings())
def test_the_order_is_that_of_the_findings(found: list[Finding]) -> None:
    """Groups are in the order of their first findings, errors first; no member precedes its first."""
    groups = grouped(found)

    assert [group.first for group in groups] == sorted((group.first for group in groups), key=sort_key)
    assert all(group.first == min(group.findings, key=sort_key) for group in groups)


@given(findings())
def test_the_lines_are_the_first_ones_and_the_last(found: list[Finding]) -> None:
    """By number, each once, at most twenty-one; all of them where they fit."""
    for group in grouped(found):
        lines = sorted({item.line for item in group.findings if item.line is not None})
        named = group.named_lines()

        assert named == (lines if len(lines) <= 21 else [*lines[:20], lines[-1]])


@given(findings())
def test_grouping_what_is_grouped_changes_nothing(found: list[Finding]) -> None:
    """No two groups belong together."""
    firsts = [group.first for group in grouped(found)]

    assert [group.findings for group in grouped(firsts)] == [(first,) for first in firsts]
