from __future__ import annotations

import pytest
from pydantic import ValidationError

from ktx_cli.scan.descriptions.model import DescribeAnswer, is_failure

FAILURES = [
    "I cannot determine the meaning of this column.",
    "I can't tell.",
    "I'm sorry, but there is not enough data.",
    "Sorry, no idea.",
    "Unable to determine.",
    "Cannot be determined from the name.",
    "As an AI language model, I do not know.",
    "Error: rate limit exceeded",
    "API error",
    "HTTP 429 Too Many Requests",
    "Traceback (most recent call last):",
    '{"error": "overloaded"}',
    "<html>",
    "No description available.",
    "Description unavailable",
    "Insufficient context.",
    "N/A",
    "n/a.",
    "Unknown",
    "None.",
    "null",
    "TBD",
    "...",
    "",
    "   ",
]
TEXTS = [
    "Error code the gateway returned.",
    "Unknown callers are counted here as 0.",
    "Not available for sale before this date.",
    "No-show flag of the booking.",
    "None of the discounts apply when true.",
    "Identifier of the invoice.",
    "Internal rate, in percent.",
    "Currency, ISO 4217.",
]


@pytest.mark.table("text", FAILURES)
def test_failures_are_no_texts(text: str) -> None:
    assert is_failure(text)


@pytest.mark.table("text", [*TEXTS, None])
def test_texts_are_no_failures(text: str | None) -> None:
    assert not is_failure(text)


@pytest.mark.table(
    "table",
    [
        {"table": "t", "description": "x" * 401, "columns": []},
        {"table": "t", "description": 7, "columns": []},
        {"table": "t", "description": None, "columns": [{"column": "c", "description": "x" * 301}]},
        {"table": "t", "description": None, "columns": [], "extra": 1},
        {"table": "t", "columns": []},
    ],
)
def test_answers_out_of_bounds_are_refused(table: object) -> None:
    with pytest.raises(ValidationError):
        DescribeAnswer.model_validate({"tables": [table]})
