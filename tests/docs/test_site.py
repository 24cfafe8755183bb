"""What of a page a browser would fetch from elsewhere."""

from __future__ import annotations

import pytest

from docs.site import loaded_from_elsewhere


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
