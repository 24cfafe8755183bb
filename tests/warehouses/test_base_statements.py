"""The first word of a statement, and comments that servers read differently."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses.base import leading_keyword, require_reading


@pytest.mark.table(
    ("sql", "word"),
    [
        ("SELECT 1", "SELECT"),
        ("select 1", "SELECT"),
        ("  \n\t(( select 1))", "SELECT"),
        ("-- a comment\nSELECT 1", "SELECT"),
        ("-- a comment\r\nSELECT 1", "SELECT"),
        ("--\nSELECT 1", "SELECT"),
        ("/* a */ /* b */SELECT", "SELECT"),
        ("/* -- */ DROP", "DROP"),
        ("-- /*\nDROP", "DROP"),
        ("SELECT*FROM t", "SELECT"),
        ("", ""),
        ("-- only a comment", ""),
        ("/* not closed SELECT", ""),
        ("/* a /* b */ SELECT */ DROP", ""),
        ("/*! DROP */ SELECT", ""),
        ("/*M! DROP */ SELECT", ""),
        ("--DROP\nSELECT", ""),
        ("-- a\rDROP\nSELECT", ""),
        ("# a\nSELECT", ""),
        ("; SELECT", ""),
        ("\u00a0SELECT", ""),
        ("1 SELECT", ""),
    ],
)
def test_leading_keyword(sql: str, word: str) -> None:
    assert leading_keyword(sql)[0] == word


def test_the_offset_is_behind_the_word() -> None:
    sql = "/* a */ explain select 1"
    assert sql[leading_keyword(sql)[1] :] == " select 1"


@given(st.text(alphabet="SELECTdrop ()-/*!#\n\r;'\"", max_size=30))
def test_a_word_is_really_there_and_nothing_but_space_and_comments_before_it(sql: str) -> None:
    word, behind = leading_keyword(sql)
    assert 0 <= behind <= len(sql)
    if word:
        start = behind - len(word)
        assert sql[start:behind].upper() == word
        before = sql[:start]
        assert before.count("/*") == before.count("*/") or "--" in before
        assert "#" not in before.split("\n")[-1] or "/*" in before


def test_refused_by_name() -> None:
    with pytest.raises(SourceError) as caught:
        require_reading("DROP TABLE t", {"SELECT"}, "connection `x`")
    assert caught.value.code == "read_only"
    assert caught.value.message == "connection `x`: `DROP` statements are not run: ktx only reads"
    require_reading("SELECT 1", {"SELECT"}, "connection `x`")
