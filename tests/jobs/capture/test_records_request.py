"""What is refused before anything is stored, what two texts have in common, and what a label shows."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.core.errors import UsageError
from ktx_cli.jobs.capture.records import BOUNDS, CaptureRequest, SourceType, masked_words, normalised
from ktx_cli.project.config.model import KtxConfig

CONFIG = KtxConfig.model_validate(
    {
        "connections": {
            "shop": {"driver": "sqlite", "path": "shop.sqlite"},
            "docs": {"driver": "documents", "path": "docs"},
        }
    }
)


@pytest.mark.table(
    ("one", "other"), [("a\nb", "a\r\nb"), ("a\nb", "\n\na  \nb\t\n\n"), ("caf\u00e9", "cafe\u0301"), ("a", "\ufeffa")]
)
def test_texts_a_reader_takes_for_the_same_are_the_same(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)
    assert CaptureRequest(one).sha256 == CaptureRequest(other).sha256


def test_another_scope_is_another_capture_and_another_way_is_not() -> None:
    found = {
        CaptureRequest("a", **fields).sha256  # type: ignore[arg-type]
        for fields in ({}, {"connection": "shop"}, {"user": "shop"}, {"user": "ada"})
    }
    assert len(found) == 4
    same = {CaptureRequest("a", name="a.md").sha256, CaptureRequest("a", propose=True, replace=True).sha256}
    assert same == {CaptureRequest("a").sha256}


@pytest.mark.table(
    ("fields", "told"),
    [
        ({"text": "  \n"}, "there is no text"),
        ({"text": "x" * 48_001}, "48,001 characters, but the limit for `external_ingest` is 48,000"),
        ({"text": "x" * 16_001, "source_type": SourceType.RESEARCH}, "but the limit for `research` is 16,000"),
        ({"text": "a\npassword: hunter2-x9"}, "line 2: what looks like the value of `password`"),
        ({"text": "a", "user": "../x"}, "is not a valid user id"),
        ({"text": "a", "connection": "shp"}, "there is no connection `shp`"),
        ({"text": "a", "connection": "docs"}, "has no semantic layer"),
    ],
)
def test_what_cannot_be_captured_is_told(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told) as found:
        CaptureRequest(**fields).check(CONFIG)
    assert found.value.hint
    CaptureRequest("a", connection="shop", user="ada").check(CONFIG)


def test_a_label_is_a_short_line_without_anything_personal() -> None:
    text = "Ask ada@example.com\nor +47 912 34 567 about\tit\u200b " + "word " * 50
    label = CaptureRequest(text).label
    assert label.startswith('"Ask *** or') and "example" not in label and "\n" not in label
    assert len(label) <= 62
    assert CaptureRequest("a", name="notes of ada@example.com.md").label == "notes of ***"
    assert masked_words("Refunds come off.") == "Refunds come off."


def test_steps_and_lengths_of_each_kind_of_text() -> None:
    assert {kind.value: (each.steps, each.characters) for kind, each in BOUNDS.items()} == {
        "research": (20, 16_000),
        "backfill": (25, 16_000),
        "external_ingest": (30, 48_000),
    }
