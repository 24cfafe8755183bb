from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core.errors import UsageError
from ktx_cli.wiki.page import (
    check_key,
    key_problem,
    page_path,
    place_of,
    same_but_for_case,
    scopes_seen_from,
    suggested_key,
    user_scope,
)


@pytest.mark.table("key", ["revenue", "Net_Revenue-2", "a", "0", "console", "a" * 120])
def test_a_key_that_may_be(key: str) -> None:
    assert check_key(key) == suggested_key(key) == key


@pytest.mark.table(
    ("key", "suggested"),
    [
        ("finance/net revenue", "finance-net-revenue"),
        ("wiki/global/Revenue.md", "Revenue"),
        ("wiki/user/ada/notes/Q1.md", "notes-q1"),
        ("./global/a.b", "a-b"),
        ("Erlöse", "erlose"),
        ("-x-", "x"),
        ("../../etc/passwd", "etc-passwd"),
        ("con", "con-page"),
        ("NUL", "nul-page"),
        ("", "page"),
        ("价格", "page"),
        ("a\nb", "a-b"),
        ("x" * 130, "x" * 120),
    ],
)
def test_another_is_refused_with_one_that_may_be(key: str, suggested: str) -> None:
    if key_problem(key) is None:
        pytest.fail("should be refused")
    with pytest.raises(UsageError) as caught:
        check_key(key)
    assert caught.value.details["suggested"] == suggested
    assert suggested in (caught.value.hint or "")


@given(st.text())
def test_what_is_suggested_may_be_and_stays(text: str) -> None:
    suggested = suggested_key(text)
    assert key_problem(suggested) is None
    assert suggested_key(suggested) == suggested


@pytest.mark.table(
    ("path", "place"),
    [
        ("wiki/global/a.md", ("global", "a")),
        ("wiki/user/ada@example.com/a.md", ("user/ada@example.com", "a")),
        ("wiki/global/b/a.md", None),
        ("wiki/a.md", None),
        ("wiki/user/a.md", None),
        ("wiki/user//a.md", None),
        ("wiki/user/a/b/c.md", None),
        ("wiki/global/a.txt", None),
        ("wiki/global/.a.md", None),
        ("wikis/global/a.md", None),
        ("raw-sources/wiki/global/a.md", None),
    ],
)
def test_the_place_of_a_path(path: str, place: tuple[str, str] | None) -> None:
    assert place_of(path) == place
    if place is not None:
        assert page_path(*place) == path


def test_users_see_their_own_pages_first() -> None:
    assert scopes_seen_from("global") == ("global",)
    assert scopes_seen_from(user_scope("ada")) == ("user/ada", "global")


@pytest.mark.table("user", ["", ".", "..", "a/b", ".git", "a b", "x.", "nul"])
def test_an_id_that_cannot_be_a_folder(user: str) -> None:
    with pytest.raises(UsageError):
        user_scope(user)


def test_keys_that_differ_in_case_alone() -> None:
    assert same_but_for_case("Revenue", ["orders", "revenue"]) == "revenue"
    assert same_but_for_case("revenue", ["revenue", "orders"]) is None
