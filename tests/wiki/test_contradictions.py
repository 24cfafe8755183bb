"""Contradictions between sources: one record for each, and the file that keeps them until a person decides."""

from __future__ import annotations

import pytest

from ktx_cli.core import ConfigError
from ktx_cli.project import CONTRADICTIONS_NAME
from ktx_cli.project.workspace import Workspace
from ktx_cli.wiki import Contradiction, Statement, load_contradictions, merged, with_contradictions

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
    other = Contradiction("return window", (NEW, Statement("Seven.", "wiki:returns", "x")))
    assert merged([WINDOW, REVENUE, again, other]) == [Contradiction("Return window", (OLD, NEW, said)), REVENUE, other]


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
