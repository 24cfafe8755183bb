"""KTX212: a page is too long, which `ktx wiki lint` reports; a full example would be too long to include."""

from __future__ import annotations

from ktx_cli.jobs.check.lint.lint import shared_rule

RULE = shared_rule(
    "KTX212",
    "A page or its summary is too long.",
    "Agents read a page as a whole. Split a long page into two pages that refer to each other.",
    alias="too_long",
    bad={"wiki/global/page.md": f"---\nsummary: A page\n---\n\n{'Text. ' * 800}\n"},
)
