"""The errors all connectors share, and reasons on one short line."""

from __future__ import annotations

import pytest

from ktx_cli.warehouses.base import REASON_LENGTH, BaseConnector, reason
from ktx_cli.warehouses.port import ConnectionSpec


@pytest.mark.table(
    ("error", "said"),
    [
        ("division by zero", "division by zero"),
        (ValueError("no such table: main.gone"), "no such table: main.gone"),
        ('Catalog Error: no gone!\nDid you mean "pg_index"?\n\nLINE 1: x\n     ^', "Catalog Error: no gone!"),
        ('Binder Error: no gone!\nCandidate bindings: "id"', "Binder Error: no gone!"),
        ("Error on Line: 2\nOriginal Line: ann,secret\nBad value\n\nPossible", "Error on Line: 2: Bad value"),
        ('syntax error\nLINE 1: SELECT\n        ^', "syntax error"),
        ("one:\ntwo\r\n\tthree\x1b[31m", "one: two: three [31m"),
        ("", "the database gave no reason"),
        (" \n ^ \n", "the database gave no reason"),
    ],
)  # fmt: skip
def test_a_reason_is_one_line(error: object, said: str) -> None:
    assert reason(error) == said


def test_a_reason_is_short() -> None:
    assert len(reason("x" * 5000)) == REASON_LENGTH


@pytest.mark.table(
    ("of_the_user", "what", "hint"), [(True, "the statement", "WHERE"), (False, "reading the catalog", "retry when")]
)
def test_the_hint_of_a_timeout_fits(of_the_user: bool, what: str, hint: str) -> None:
    error = BaseConnector(ConnectionSpec("shop", "x"), "here").timeout(of_the_user=of_the_user)
    assert (error.code, error.message) == ("timeout", f"connection `shop` (here): {what} was stopped after 30 seconds")
    assert hint in (error.hint or "")
