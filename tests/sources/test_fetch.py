"""The lists of APIs: what is not a list, and lists without an end."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.sources import fetch as module
from ktx_cli.sources.fetch import PageTokens, entries


@pytest.mark.parametrize(
    "page",
    [{}, {"items": None}, {"items": {}}, {"items": "ab"}, {"items": [1]}, {"items": [{"id": ""}]}, {"items": [{}]}],
    ids=str,
)
def test_a_page_of_another_shape_is_an_error(page: dict[str, Any]) -> None:
    with pytest.raises(SourceError, match="Example returned an unexpected response for GET /items: `items` is not"):
        entries(page, "items", "Example", "GET /items")


def test_an_empty_list_is_a_list() -> None:
    assert entries({"items": []}, "items", "Example", "GET /items") == []
    assert entries({"items": [{"name": "a"}]}, "items", "Example", "GET /items", id="") == [{"name": "a"}]


def test_page_tokens_may_not_come_twice() -> None:
    tokens = PageTokens("Example")
    assert [tokens.following(each) for each in ("a", "b", 3)] == ["a", "b", "3"]
    with pytest.raises(SourceError, match="Example returned the same part of a list twice"):
        tokens.following("a")


def test_a_list_must_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PAGES", 3)
    tokens = PageTokens("Example")
    for each in range(3):
        tokens.following(each)
    with pytest.raises(SourceError, match="a list with more than 3 pages"):
        tokens.following(3)
