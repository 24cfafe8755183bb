"""A project's semantic layer, written from texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ktx_cli.project.layout import Layout
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.model import Model

Write = Callable[[Mapping[str, str | bytes]], Layout]
Load = Callable[..., Model]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes the files of the connection `shop`: path below its folder -> text."""

    def write_files(files: Mapping[str, str | bytes]) -> Layout:
        for name, text in files.items():
            path = tmp_path / "semantic-layer" / "shop" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode() if isinstance(text, str) else text)
        return Layout(tmp_path)

    return write_files


@pytest.fixture
def load(write: Write) -> Load:
    """Return a function that loads sources from the texts of their files."""
    return lambda *texts, dialect="duckdb": load_model(
        write({f"{number}.yaml": text for number, text in enumerate(texts)}), "shop", dialect
    )
