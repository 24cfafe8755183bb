"""Secrets and hidden characters in what sources say."""

from __future__ import annotations

import pytest

from ktx_cli.engine.source_phase import suspicious_texts
from ktx_cli.project.layout import EmptyTree
from ktx_cli.project.workspace import Workspace

PATH = "semantic-layer/shop/_schema/main.yaml"


@pytest.mark.table(
    ("line", "is_told"),
    [
        ("description: one row for each order", False),
        ("description: 'the password: hunter22x of the feed'", True),
        ("accepted_values: [AKIAIOSFODNN7EXAMPLQ]", True),
        ("description: paid \u202e in full", True),
        ("expr: sum(amount)", False),
    ],
)
def test_lines_a_source_brought_are_looked_at(line: str, is_told: bool) -> None:
    before = Workspace(EmptyTree())
    before.write(PATH, b"name: orders\npassword: hunter22xyz\n")
    after = before.child()
    after.write(PATH, f"name: orders\npassword: hunter22xyz\n{line}\n".encode())
    told = suspicious_texts("company (dbt)", "company", before, after)
    assert [each.details["places"] for each in told] == ([[f"{PATH}:3"]] if is_told else [])
