"""`ktx.example.yaml`: the `llm` block of each backend stands in it, and loads with nothing else."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from docs.settings import example_yaml, llm_blocks
from ktx_cli.core import yaml
from ktx_cli.llm.settings import bindings
from ktx_cli.project.config.blocks import ROLES, SUPPORTED_BACKENDS
from ktx_cli.project.config.file import load_config

FILE = Path(__file__).resolve().parents[3] / "ktx.example.yaml"
BLOCKS = llm_blocks()


def test_there_is_a_block_for_every_backend() -> None:
    assert set(BLOCKS) == {*SUPPORTED_BACKENDS, "none"}


@pytest.mark.table("backend", BLOCKS)
def test_each_block_is_a_file_of_its_own(backend: str) -> None:
    loaded = load_config(Path("ktx.yaml"), data=BLOCKS[backend].encode())
    assert not loaded.issues
    assert loaded.config.llm.provider.backend == backend
    assert {ref.backend for ref in bindings(loaded.config).values()} <= {backend, "claude-cli"}


def test_the_block_of_claude_code_names_every_role() -> None:
    models = yaml.load(BLOCKS["claude-code"], where="example")["llm"]["models"]
    assert list(models) == list(ROLES)


def test_the_committed_file_is_the_one_that_is_made_and_has_the_blocks_behind_marks() -> None:
    text = FILE.read_text("utf-8")
    assert text == example_yaml()
    for block in BLOCKS.values():
        assert textwrap.indent(block, "# ") in text
    assert yaml.load(text, where="example")["llm"]["provider"]["backend"] == "claude-code"
