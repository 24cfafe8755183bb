"""The paths that a page names exist, and tests stand where the code that they test stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "ktx_cli"
PACKAGES = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PATH = re.compile(r'(?<![\w/.~-])(?<!title=")(?:tests|benchmarks|ktx_cli|docs)/[\w./*<>-]*[\w/>]')
MODULE = re.compile(rf"`((?:{'|'.join(PACKAGES)})/[\w/]+\.py)\b")
PLACEHOLDER = re.compile(r"<\w+>|\bNAME\b")
WORLDS = {"semantic/golden", "semantic/tpch"}
"""Companies with their questions, which need several packages."""


@pytest.mark.table("page", [str(page.relative_to(ROOT)) for page in PAGES])
def test_the_paths_on_a_page_exist(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    named = sorted({*PATH.findall(text), *(f"ktx_cli/{path}" for path in MODULE.findall(text))})
    assert [path for path in named if not any(ROOT.glob(PLACEHOLDER.sub("*", path).rstrip("/")))] == []


@pytest.mark.table("package", PACKAGES)
def test_the_tests_of_a_package_mirror_its_folders(package: str) -> None:
    """A module with many tests may have a folder of them."""
    tests = ROOT / "tests"
    folders = {path.parent.relative_to(tests).as_posix() for path in (tests / package).rglob("test_*.py")} - WORLDS
    assert folders
    assert [name for name in folders if not (PACKAGE / name).is_dir() and not (PACKAGE / f"{name}.py").is_file()] == []
