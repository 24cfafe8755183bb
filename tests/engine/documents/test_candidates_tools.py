"""Writing candidates and giving verdicts: a verdict has to be borne out by what happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.agent_tools.session import Action, PageBudget, ToolSession
from ktx_cli.engine.documents.candidates import Book, PageCandidate, mark_tool
from ktx_cli.llm.types import ToolInvocation

PAGE = "---\nsummary: What a refund is.\n---\n\nText.\n"
FILES = {"wiki/global/refunds.md": PAGE, "wiki/global/fresh.md": PAGE, "wiki/global/earlier.md": PAGE}
Call = Callable[..., ToolInvocation]


@pytest.fixture
def at(session: Callable[..., ToolSession]) -> ToolSession:
    made = session(FILES, budget=PageBudget(1, 1))
    made.acted(Action("wiki", "created", "fresh"), "wiki/global/fresh.md")
    return made


@pytest.fixture
def book(candidate: Callable[..., PageCandidate]) -> Book:
    return Book.of([candidate("a", "A."), candidate("b", "B.")], ("wiki:earlier",))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"status": "promoted", "artifact": "wiki:fresh"}, ("promoted", "", "wiki:fresh")),
        ({"status": "promoted", "artifact": "wiki:earlier"}, ("promoted", "", "wiki:earlier")),
        ({"status": "merged", "artifact": "wiki:refunds"}, ("merged", "", "wiki:refunds")),
        (
            {"status": "rejected", "reason": "its passage\nsays otherwise"},
            ("rejected", "its passage says otherwise", ""),
        ),
        ({"status": "conflict", "reason": "the page says 30 days"}, ("conflict", "the page says 30 days", "")),
    ],
)
def test_a_verdict_is_kept(
    at: ToolSession, book: Book, call: Call, arguments: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    done = call([mark_tool(at, book)], "context_candidate_mark", key="a", **arguments)
    assert not done.is_error, done.text
    found = book.candidates["a"]
    assert (found.status, found.reason, found.into) == expected
    assert "1 left to mark" in done.text


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"key": "z", "status": "rejected", "reason": "x"}, "not a candidate in this task"),
        ({"key": "a", "status": "rejected"}, "reason"),
        ({"key": "a", "status": "conflict", "reason": "  "}, "reason"),
        ({"key": "a", "status": "rejected", "reason": "exceeded_run_budget"}, "budget for pages"),
        ({"key": "a", "status": "promoted"}, "no artifact"),
        ({"key": "a", "status": "promoted", "artifact": "wiki:nowhere"}, "no artifact"),
        ({"key": "a", "status": "promoted", "artifact": "wiki:../../ktx"}, "no artifact"),
        ({"key": "a", "status": "promoted", "artifact": "sl:shop/orders"}, "no artifact"),
        ({"key": "a", "status": "promoted", "artifact": "wiki:refunds"}, "nothing was written"),
    ],
)
def test_a_verdict_that_did_not_happen_is_refused(
    at: ToolSession, book: Book, call: Call, arguments: dict[str, Any], why: str
) -> None:
    done = call([mark_tool(at, book)], "context_candidate_mark", **arguments)
    assert done.is_error
    assert why in done.text
    assert {each.status for each in book.candidates.values()} == {"pending"}


def test_the_budget_is_a_reason_once_it_is_used_up(at: ToolSession, book: Book, call: Call) -> None:
    at.budget = PageBudget(0, 5)
    done = call(
        [mark_tool(at, book)], "context_candidate_mark", key="a", status="rejected", reason="exceeded_run_budget"
    )
    assert not done.is_error, done.text


def test_a_book_goes_on_where_it_was(book: Book) -> None:
    book.candidates["a"] = book.candidates["a"].judged("merged", into="wiki:refunds")
    other = Book()
    other.restore(book.to_json())
    assert other.candidates == book.candidates
