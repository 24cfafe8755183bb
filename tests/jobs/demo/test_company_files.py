from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.core.errors import StorageError
from ktx_cli.jobs.demo.company import copy_packaged, packaged_names, packaged_text


def test_names_are_relative_and_sorted() -> None:
    names = packaged_names("dbt")
    assert names == sorted(names)
    assert {"dbt_project.yml", "models/sources.yml", "models/marts/days.sql"} <= set(names)


def test_copies_are_exact(tmp_path: Path) -> None:
    written = copy_packaged("dbt", tmp_path / "new")
    assert [path.relative_to(tmp_path / "new").as_posix() for path in written] == packaged_names("dbt")
    for path, name in zip(written, packaged_names("dbt"), strict=True):
        assert path.read_bytes() == packaged_text(f"dbt/{name}").encode()


@pytest.mark.parametrize("folder", ["dbt", "handbook"])
def test_packaged_files_are_tidy(folder: str) -> None:
    for name in packaged_names(folder):
        text = packaged_text(f"{folder}/{name}")
        assert text.endswith("\n") and not text.endswith("\n\n"), name
        assert "\t" not in text and "\r" not in text, name
        assert all(line == line.rstrip() and len(line) <= 120 for line in text.splitlines()), name


def test_a_target_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="file"):
        copy_packaged("handbook", tmp_path / "file" / "handbook")
