"""Contradictions between sources: one record for each, and the file that keeps them until a person decides."""

from __future__ import annotations

import pytest

from ktx_cli.core import ConfigError
from ktx_cli.project import CONTRADICTIONS_NAME
from ktx_cli.project.workspace import Workspace
from ktx_cli.wiki import (
    Contradiction,
    ContradictionDecision,
    Statement,
    contradictions_in,
    entry_line,
    load_contradictions,
    merged,
    settled,
    with_contradictions,
    with_decision,
)

OLD = Statement("Customers have 14 days.", "docs/old.md", "the window of returns", "2023")
NEW = Statement("Customers have 30 days.", "docs/new.md", "the window of returns", "March 2025")
WINDOW = Contradiction("Return window", (OLD, NEW))
REVENUE = Contradiction(
    "net revenue",
    (
        Statement("Refunds come off.", "docs/new.md", "net_revenue"),
        Statement("sum(amount)", "sl:shop/orders.net_revenue", "none"),
    ),
    "sum(amount) is 15, refunds are 2",
)


class Files:
    def __init__(self, content: bytes | None) -> None:
        self.content = content

    def read(self, path: str) -> bytes | None:
        return self.content if path == CONTRADICTIONS_NAME else None

    def paths(self, prefix: str) -> list[str]:
        return []


def kept(content: bytes | None) -> list[Contradiction]:
    return load_contradictions(Workspace(Files(content)))


def test_the_same_topic_of_the_same_sources_is_one_contradiction() -> None:
    said = Statement("Thirty days.", "docs/new.md", "x")
    again = Contradiction("return  WINDOW", (said, OLD))
    third = Statement("Seven.", "wiki:returns", "x")
    more = Contradiction("about the window of return", (NEW, third))
    other = Contradiction("return window", (third, Statement("Eight.", "wiki:other", "x")))
    one, two = merged([WINDOW, REVENUE, again]), merged([WINDOW, more])
    assert one == [Contradiction("Return window", (OLD, NEW, said)), REVENUE]
    assert two == [Contradiction("Return window", (OLD, NEW, third))]
    assert merged([WINDOW, other]) == [WINDOW, other]


@pytest.mark.table(
    ("topic", "statements", "same"),
    [
        ("window of returns", (OLD, NEW), True),
        ("Definition of the return window", (NEW, Statement("Seven.", "wiki:returns", "x")), True),
        ("return window", (Statement("Seven.", "wiki:returns", "x"),), False),
        ("how long", (NEW, OLD), True),
        ("how long", (NEW, Statement("Seven.", "docs/old.md", "x")), False),
        ("return windows", (NEW, Statement("Seven.", "wiki:returns", "x")), False),
        ("return address", (OLD, Statement("Hamburg.", "docs/new.md", "x")), False),
    ],
)
def test_what_is_the_same_contradiction(topic: str, statements: tuple[Statement, ...], same: bool) -> None:
    other = Contradiction(topic, statements)
    assert WINDOW.same_as(other) is other.same_as(WINDOW) is same


def test_what_is_recorded_is_kept_as_it_was_said() -> None:
    content = with_contradictions(None, [WINDOW, REVENUE, WINDOW], ())
    assert content is not None and content.startswith(b"# Sources that contradict each other")
    assert kept(content) == [WINDOW, REVENUE]
    assert with_contradictions(None, [], ()) is None


def test_a_later_run_adds_and_leaves_what_people_wrote() -> None:
    content = with_contradictions(None, [WINDOW], ()) or b""
    decided = content.replace(b"- topic: Return window\n", b"- topic: Return window  # legal\n    decision: 30 days\n")
    renewed = Contradiction("return window", (OLD, Statement("Thirty.", "docs/new.md", "x")))
    after = with_contradictions(decided, [renewed, REVENUE], ()) or b""
    assert after.startswith(decided)
    first, second = kept(after)
    assert (first.decision, first.statements, second) == ("30 days", (OLD, NEW), REVENUE)
    open_again = with_contradictions(content, [renewed], ())
    assert [each.statements for each in kept(open_again)] == [renewed.statements]


@pytest.mark.table(
    ("gone", "left"),
    [
        ((), [WINDOW, REVENUE]),
        (("docs/old.md",), [REVENUE]),
        (("docs/new.md",), []),
        (("docs/other.md",), [WINDOW, REVENUE]),
    ],
)
def test_a_deleted_file_leaves_nothing_of_what_it_said(gone: tuple[str, ...], left: list[Contradiction]) -> None:
    content = with_contradictions(None, [WINDOW, REVENUE], ())
    after = with_contradictions(content, [], gone)
    assert kept(after) == left
    assert (after is None) is (left == [])
    for path in gone:
        assert after is None or path == "docs/other.md" or path.encode() not in after


def test_of_three_statements_two_stay() -> None:
    third = Statement("Seven days.", "wiki:returns", "x")
    content = with_contradictions(None, [Contradiction("window", (OLD, NEW, third))], ())
    assert [each.statements for each in kept(with_contradictions(content, [], {"docs/old.md"}))] == [(NEW, third)]


@pytest.mark.table(
    "content",
    [b"contradictions: [x]\n", b"contradictions: {a: 1}\n", b"- a\n", b"contradictions: [{topic: x}]\n", b"{"],
)
def test_a_file_that_cannot_be_read_is_an_error_and_stays(content: bytes) -> None:
    with pytest.raises(ConfigError):
        with_contradictions(content, [WINDOW], ())


SIDES = "[{text: A, source: a.md, effect: e}, {text: B, source: b.md, effect: e}]"


@pytest.mark.table(
    ("text", "line", "message", "hint"),
    [
        (f"# ours\n- topic: x\n  statements: {SIDES}\n", 1, "not a mapping with the key `contradictions`", "restore"),
        (f"# ours\ncontradiction:\n- topic: x\n  statements: {SIDES}\n", 2, "no key `contradiction`", "use `contra"),
        ("contradictions:\n- topic: x\n  statements:\n  - {text: A, source: a.md}\n", 4, "no `effect`", "would change"),
        ("contradictions:\n- topic: x\n  statements:\n  - {text: A, effect: e}\n", 4, "has no `source`", "says so"),
        (f"contradictions:\n- topic: x\n  statements: {SIDES}\n  desicion: A\n", 4, "`desicion`", "use `decision`"),
        (f"contradictions:\n- topic: x\n  statement: {SIDES}\n", 2, "is not a topic with statements", "correct"),
        ("contradictions:\n- topic: x\n  statements: [A, B]\n", 3, "statement 1 of `x` is not a mapping", "correct"),
        ("contradictions: none\n", 1, "the value of `contradictions` is not a list", "correct"),
    ],
)
def test_an_error_of_the_file_names_its_line(text: str, line: int, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        contradictions_in(text.encode())
    assert caught.value.message.startswith(f"contradictions.yaml:{line}: ")
    assert message in caught.value.message and hint in str(caught.value.hint)


def test_notes_of_people_and_an_empty_file_are_no_errors() -> None:
    assert contradictions_in(b"# nothing yet\n") == contradictions_in(b"contradictions:\n") == []
    (found,) = contradictions_in(f"contradictions:\n- topic: x\n  statements: {SIDES}\n  note: ask Legal\n".encode())
    assert found.topic == "x"


MINE = b"""# ours
contradictions:
# first
- topic:   return window   # legal
  note: ask Legal
  statements:
  - {source: docs/old.md, text: Customers have 14 days., effect: x}   # old
  - {source: docs/new.md, text: Customers have 30 days., effect: x}

- statements: [{source: data, text: "2", effect: x}, {source: wiki:a, text: "3", effect: x}]
  topic: b
extra: 1
"""


def test_a_decision_changes_only_its_entry_and_can_be_taken_back() -> None:
    made = ContradictionDecision((2,), "Ada", "2026-01-31", "Legal signed it")
    after = with_decision(MINE, 0, made)
    new = [line for line in after.splitlines() if line not in MINE.splitlines()]
    assert [line for line in after.splitlines() if line not in new] == MINE.splitlines()
    first, second = kept(after)
    assert (first.decision, first.holds) == ("Customers have 30 days.", ("docs/new.md",))
    assert first.decision_summary == "Customers have 30 days because Legal signed it (by Ada on 2026-01-31)"
    assert not second.is_decided and entry_line(after, 0) == 4
    assert with_decision(after, 0, None) == MINE
    again = with_decision(after, 0, ContradictionDecision((1, 2), "Bo", "2026-02-01", "by year"))
    assert kept(again)[0].decision == "Both statements hold." and b"Ada" not in again


def test_a_run_keeps_the_comments_and_the_order_of_a_file_that_a_person_edited() -> None:
    added = with_contradictions(MINE, [REVENUE], ()) or b""
    start, end = MINE[: MINE.index(b"extra")], MINE[MINE.index(b"extra") :]
    assert added.startswith(start) and added.endswith(end)
    assert [each.topic for each in kept(added)] == ["return window", "b", "net revenue"]
    without = with_contradictions(MINE, [], ("docs/old.md",)) or b""
    assert b"# ours" in without and b"extra: 1" in without and [each.topic for each in kept(without)] == ["b"]


def test_a_decision_holds_for_the_same_sources_only() -> None:
    decided = kept(with_decision(MINE, 0, ContradictionDecision((), "Ada", "2026-01-31", "seven days now")))
    assert decided[0].decision == "None of the statements holds."
    assert settled(decided, WINDOW) is decided[0]
    further = Contradiction("return window", (NEW, Statement("Seven.", "wiki:returns", "x")))
    assert settled(decided, further) is None
    assert settled(kept(MINE), WINDOW) is None
    reopened = with_contradictions(
        with_decision(MINE, 0, ContradictionDecision((1,), "A", "2026-01-31")), [further], ()
    )
    assert [each.is_decided for each in kept(reopened)] == [True, False, False]
