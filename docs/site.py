"""Builds the site into `build/site` in strict mode, and verifies that its pages load nothing from other sites.

For language models, the site also has the Markdown of each page next to its HTML, `llms.txt` (https://llmstxt.org) with
a line for each page, and `llms-full.txt` with all pages.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build" / "site"
ELSEWHERE = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
IN_CSS = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)", re.IGNORECASE)
FETCHED = {"src", "srcset", "data", "poster", "action"}
"""Attributes whose addresses a browser fetches. For `href`, this applies only to `link` elements."""
DRAWN_BY_A_SCRIPT = "mermaid"
"""A class for which the script of the theme would fetch another script."""


class _Loads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            loads = name in FETCHED or (tag, name) == ("link", "href")
            if value and loads and ELSEWHERE.match(value):
                self.found.append(value)
            if value and name == "class" and DRAWN_BY_A_SCRIPT in value.split():
                self.found.append(f"class {DRAWN_BY_A_SCRIPT}")


def loaded_from_elsewhere(text: str, suffix: str) -> list[str]:
    """Return the addresses on other sites that a browser fetches for a page (`.html`) or a style sheet (`.css`)."""
    if suffix == ".css":
        return IN_CSS.findall(text)
    parser = _Loads()
    parser.feed(text)
    return parser.found + [
        found for style in re.findall(r"(?s)<style.*?</style>", text) for found in IN_CSS.findall(style)
    ]


def _wrong(site: Path) -> Iterator[str]:
    for path in sorted(site.rglob("*")):
        if path.suffix in (".html", ".css"):
            for address in loaded_from_elsewhere(path.read_text("utf-8"), path.suffix):
                yield f"{path.relative_to(site)} loads {address}"


def navigation(nav: list[Any], section: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield the section (may be empty), the title and the path of every page in a navigation of mkdocs."""
    for entry in nav:
        for title, value in entry.items():
            if isinstance(value, str):
                yield section, title, value
            else:
                yield from navigation(value, title)


_COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_NO_PROSE = ("#", "|", "```", "*", "-", ">", "<", "    ", "!", "1.")


def summary(text: str) -> str:
    """Return the first sentence of the prose of a page, without links."""
    plain = _COMMENT.sub("", text)
    blocks = (block for block in re.split(r"\n\n+", plain) if block.strip())
    prose = next((block for block in blocks if not block.startswith(_NO_PROSE)), "")
    words = " ".join(_LINK.sub(r"\1", prose).split())
    return re.split(r"(?<=[.?])\s", words, maxsplit=1)[0].rstrip(":")


def llms_text(name: str, description: str, nav: list[Any], pages: Mapping[str, str]) -> str:
    """Return `llms.txt`: a line with the link and the first sentence of every page. `pages`: path -> Markdown."""
    lines, last = [f"# {name}", "", f"> {description}"], None
    ordered = sorted(navigation(nav), key=lambda page: page[0] != "")  # those without a section come first
    for section, title, path in ordered:
        if section != last:
            lines += ["", f"## {section or 'Overview'}", ""]
            last = section
        lines.append(f"- [{title}]({path}): {summary(pages[path])}")
    return "\n".join([*lines, ""])


def llms_full(nav: list[Any], pages: Mapping[str, str]) -> str:
    """Return `llms-full.txt`: the Markdown of every page, each below its path."""
    parts = (f"<!-- {path} -->\n\n{_COMMENT.sub('', pages[path]).strip()}\n" for _, _, path in navigation(nav))
    return "\n".join(parts)


def write_for_models(settings: Mapping[str, Any], docs: Path, site: Path) -> None:
    """Write the Markdown of all pages in the navigation, `llms.txt` and `llms-full.txt` into a site."""
    nav = settings["nav"]
    pages = {path: (docs / path).read_text("utf-8") for _, _, path in navigation(nav)}
    for path, text in pages.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text, "utf-8")
    text = llms_text(settings["site_name"], settings["site_description"], nav, pages)
    (site / "llms.txt").write_text(text, "utf-8")
    (site / "llms-full.txt").write_text(llms_full(nav, pages), "utf-8")


def main() -> None:
    """Build the site; exit 1 with the errors in pages, links and the navigation."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    os.environ["NO_MKDOCS_2_WARNING"] = "1"
    from mkdocs.commands.build import build
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort

    try:
        config = load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(SITE))
        build(config)
    except Abort as error:
        sys.exit(f"the site was not built: {error}")
    write_for_models(config, ROOT / "docs", SITE)
    wrong = list(_wrong(SITE))
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
