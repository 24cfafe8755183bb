"""Which parts of a file may say who sees what, and which keys only look like it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ktx_cli.semantic.load.entries import may_protect, misplaced, text_may_protect


@pytest.mark.table(
    ("document", "expected"),
    [
        ({"columns": [{"name": "salary", "visibility": "hidden"}]}, True),
        ({"columns": [{"name": "salary", "visibility": "internal"}]}, True),
        ({"columns": [{"name": "salary", "visibility": "hiden"}]}, True),
        ({"columns": [{"name": "salary", "Visibility": "hidden"}]}, True),
        ({"columns": [{"name": "salary", "visibility": "public"}]}, False),
        ({"columns": [{"name": "salary", "visibility": None}]}, True),
        ({"name": "people", "policies": None}, True),
        ({"name": "people", "policy": None}, True),
        ({"name": "people", "measures": None, "tagss": None}, False),
        ({"policies": [{"filter": "region = 1"}]}, True),
        ({"policies": []}, False),
        ({"policy": "region = 1"}, True),
        ({"column_override": {"salary": {}}}, True),
        ({"column_overrides": {"salary": {"description": "Gross."}}}, False),
        ({"row_access": "region = 1"}, True),
        ({"hide": ["salary"]}, True),
        ({"access": "hidden"}, True),
        ({"owner": "finance"}, False),
        ({"tags": {"policy": "retain"}}, False),
        ({"tags": {"visibility": "hidden"}}, True),
        ({"tests": [{"policies": ["x"]}]}, True),
        ("policies", False),
        (None, False),
        ([], False),
    ],
)
def test_parts_that_may_protect(document: Any, expected: bool) -> None:
    assert may_protect(document) is expected
    if isinstance(document, dict) and document != {"policies": []}:
        # What cannot be parsed is never taken for less than what can.
        assert text_may_protect(yaml.safe_dump(document)) >= expected


@pytest.mark.table(
    ("text", "expected"),
    [
        ("name: orders\ncolumns: [\n", False),
        ("visibility: hidden", True),
        ("- {name: salary, visibility: hidden", True),
        ("- {name: salary, visibility: public}", False),
        ("? visibility\n: hidden", True),
        ('"visibility" : "hidden"', True),
        ("<<<<<<< HEAD\npolicies:\n  - filter: x\n", True),
        ("visibility: public", False),
        ("hidden: true", True),
        ("a\0b", True),
        ("a\ufffdb", True),
    ],
)
def test_texts_that_may_protect(text: str, expected: bool) -> None:
    assert text_may_protect(text) is expected


def test_misplaced_keys_are_exact_ones() -> None:
    meant = {"visibility": "hidden", "Policies": ["x"], "visible": True, "policy": "x", "policies": []}
    assert misplaced(meant) == ["visibility", "Policies"]
