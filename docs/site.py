"""Builds the site into `build/site` in strict mode, and verifies that its pages load nothing from other sites."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

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


def main() -> None:
    """Build the site; exit 1 with the errors in pages, links and the navigation."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    os.environ["NO_MKDOCS_2_WARNING"] = "1"
    from mkdocs.commands.build import build
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort

    try:
        build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(SITE)))
    except Abort as error:
        sys.exit(f"the site was not built: {error}")
    wrong = list(_wrong(SITE))
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
