"""Whether a page may be saved: everything that speaks against it, in one answer, and what is only worth a note."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ktx_cli.context.tools.failures import Refused
from ktx_cli.context.tools.ledger import refusal_of
from ktx_cli.context.tools.limits import joined
from ktx_cli.context.tools.page_names import dangling, missing_pages, page_needs
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.context.tools.wiki_reading import keys_of
from ktx_cli.context.wiki.hosts import hosts_of
from ktx_cli.context.wiki.lint import LONGEST_BODY, NOTES, lint_page
from ktx_cli.context.wiki.model import Finding, Page
from ktx_cli.context.wiki.references import references
from ktx_cli.core.text import listing, one_line


def check_page(session: ToolSession, page: Page, old: Page | None, raw_paths: Collection[str]) -> list[str]:
    """Return what is worth a note of a page; `Refused` with everything that keeps it from being saved.

    What the page said before is not held against it.
    """
    models = session.models()
    known = {} if old is None else page_needs(old, models)
    needs = [need for shown, need in page_needs(page, models).items() if shown not in known]
    findings = list(_new_findings(session, page, old, raw_paths))
    broken = [each for each in findings if each.code not in NOTES]
    later = missing_pages(page, keys_of(session))
    gone = [] if session.refs_later or not later else [f"there is no page {listing(f'`{key}`' for key in later)}"]
    nowhere = [*dangling(page, models, () if old is None else references(old)), *gone]
    reasons = joined(
        _lines("These lead nowhere, so nothing was saved:", nowhere),
        _lines("This may not be in a page, so nothing was saved:", [_told(each, page) for each in broken]),
        refusal_of(session.ledger.missing(needs)),
    )
    if reasons:
        raise Refused(reasons)
    notes = [f"note: {each.message} (line {each.line})" for each in findings]
    return [*notes[:20], *([f"note: no page yet: {listing(later, 20)}"] if later else [])]


def _new_findings(session: ToolSession, page: Page, old: Page | None, raw_paths: Collection[str]) -> Iterator[Finding]:
    hosts = _hosts(session, raw_paths)
    before = set() if old is None else {(each.code, each.message) for each in lint_page(old, hosts)}
    for each in lint_page(page, hosts):
        shrunk = each.code == "too_long" and old is not None and LONGEST_BODY < len(page.body) <= len(old.body)
        if (each.code, each.message) not in before and not shrunk:
            yield each


def _hosts(session: ToolSession, raw_paths: Collection[str]) -> frozenset[str] | None:
    """Return the hosts the raw files of a page name; None where it comes of none."""
    return hosts_of(session.raw[path] for path in raw_paths if path in session.raw) if raw_paths else None


def _told(finding: Finding, page: Page) -> str:
    return f"{finding.message} (line {finding.line} of {page.key}): {finding.hint}"


def _lines(heading: str, lines: list[str]) -> str:
    shown = "\n".join(f"- {one_line(line, 600)}" for line in lines[:30])
    return f"{heading}\n{shown}" if lines else ""
