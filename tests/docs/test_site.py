"""What of a page a browser would fetch from elsewhere, and what the site has for language models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.site import loaded_from_elsewhere, navigation, summary, write_for_models

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.table(
    ("text", "found"),
    [
        ('<a href="https://example.com">a</a><link rel="stylesheet" href="assets/a.css">', []),
        ('<script src="https://example.com/a.js"></script>', ["https://example.com/a.js"]),
        ('<img src="//example.com/a.png">', ["//example.com/a.png"]),
        ('<link rel="preconnect" href="https://fonts.example.com">', ["https://fonts.example.com"]),
        ('<pre class="mermaid"><code>', ["class mermaid"]),
        ("<style>@import 'https://example.com/a.css';</style>", ["https://example.com/a.css"]),
    ],
)
def test_what_a_page_loads(text: str, found: list[str]) -> None:
    assert loaded_from_elsewhere(text, ".html") == found


def test_what_a_style_sheet_loads() -> None:
    assert loaded_from_elsewhere("a{b:url(c.png)}d{e:url(https://example.com/f)}", ".css") == ["https://example.com/f"]


# -- llms.txt --------------------------------------------------------------------------------------------------

_LINE = re.compile(r"- \[([^\]]+)\]\(([^)]+)\): (\S.*)")


@pytest.fixture(scope="module")
def settings() -> Any:
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))


@pytest.fixture(scope="module")
def site(settings: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write_for_models(settings, ROOT / "docs", folder)
    return folder


def test_llms_txt_lists_every_page_with_what_it_says(settings: Any, site: Path) -> None:
    text = (site / "llms.txt").read_text("utf-8")
    title, blank, quoted, *rest = text.splitlines()
    assert (title, blank, quoted) == ("# ktx", "", f"> {settings['site_description']}")
    lines = [line for line in rest if line and not line.startswith("## ")]
    found = [match.groups() for line in lines if (match := _LINE.fullmatch(line))]
    assert len(found) == len(lines)
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(path for _, path, _ in found) == sorted(pages), "every page, once"
    assert {(title, path) for title, path, _ in found} == {
        (title, path) for _, title, path in navigation(settings["nav"])
    }
    assert all(len(words) < 300 for _, _, words in found)
    sections = [line[3:] for line in rest if line.startswith("## ")]
    assert sections == [
        "Overview",
        *(name for each in settings["nav"] for name, value in each.items() if isinstance(value, list)),
    ]


def test_every_link_exists(settings: Any, site: Path) -> None:
    for _, _, path in navigation(settings["nav"]):
        assert (site / path).read_bytes() == (ROOT / "docs" / path).read_bytes()
    for path in site.rglob("*.md"):
        for link in re.findall(r"\]\((?!https?:|#|mailto:)([^)\s#]+\.md)", path.read_text("utf-8")):
            assert (path.parent / link).is_file(), (path, link)


def test_all_pages_are_in_one_file(settings: Any, site: Path) -> None:
    text = (site / "llms-full.txt").read_text("utf-8")
    headings = re.findall(r"^<!-- (\S+\.md) -->$", text, re.MULTILINE)
    assert headings == [path for _, _, path in navigation(settings["nav"])]
    assert "Written by `make docs`" not in text


@pytest.mark.table(
    ("text", "words"),
    [
        ("# A\n\nThis is [a link](b.md). More.\n", "This is a link."),
        ("<!-- note -->\n\n# A\n\n| a |\n|---|\n\nIs it\nlong? Yes.\n", "Is it long?"),
        ("# A\n\n```sh\nx\n```\n\nIt takes 0.5 s: a, b, c.\n", "It takes 0.5 s: a, b, c."),
        ("# A\n\nThese options:\n\n* a\n", "These options"),
        ("# A\n", ""),
    ],
)
def test_the_first_sentence_of_a_page(text: str, words: str) -> None:
    assert summary(text) == words
