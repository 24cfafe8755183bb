"""What of a history does not count: other statements than queries, ktx's own, what orchestrators and services send."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ktx_cli.connectors.statements import leading_keyword
from ktx_cli.connectors.tagging import TAG
from ktx_cli.context.sources.query_history.blanking import comments, compiled
from ktx_cli.context.sources.query_history.model import Observation
from ktx_cli.project.config.query_history import HistoryFilters

QUERIES: Final = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE"})
"""The words a query begins with; whatever begins otherwise (SHOW, SET, EXPLAIN, INSERT) is no question."""

_ORCHESTRATORS: Final[Mapping[str, re.Pattern[str]]] = {
    "dbt": re.compile(r'"app"\s*:\s*"dbt"'),
    "Airflow": re.compile(r"\bairflow\b|\bdag_id\b", re.IGNORECASE),
    "Dagster": re.compile(r"\bdagster\b", re.IGNORECASE),
    "Looker": re.compile(r"\bLooker Query Context\b|\bBuilding persistent derived table\b"),
    "Metabase": re.compile(r"\bMetabase::"),
    "Hex": re.compile(r"\bHex query metadata\b"),
}
"""What they write into a comment of each of their statements."""


@dataclass(slots=True)
class Dropped:
    """How many statements were left out, by reason."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, reason: str, count: int = 1) -> None:
        """Count some."""
        self.counts[reason] = self.counts.get(reason, 0) + count


def is_query(text: str) -> bool:
    """Say whether a statement asks something."""
    plain = _without_line_comments(text)
    return leading_keyword(plain)[0] in QUERIES


def is_own(text: str) -> bool:
    """Say whether ktx sent a statement: it marks all of them."""
    return text.lstrip().startswith(TAG)


def orchestrator_of(text: str, dialect: str) -> str | None:
    """Return who sends a statement by a program's own comment, None where nothing says so."""
    from sqlglot.errors import SqlglotError

    if "--" not in text and "/*" not in text and "#" not in text:
        return None
    try:
        said = comments(text, dialect)
    except SqlglotError:
        return None
    return next((name for name, mark in _ORCHESTRATORS.items() if mark.search(said)), None)


class ServiceFilter:
    """Tells statements that only service accounts send."""

    def __init__(self, filters: HistoryFilters, where: str) -> None:
        self.mode = filters.service_accounts.mode
        self._patterns = compiled(filters.service_accounts.patterns, f"{where}.filters.serviceAccounts.patterns")

    def covers(self, users: Mapping[str | None, int], executions: int) -> bool:
        """Say whether users who match account for all executions; one whose name is not known does not match."""
        if not self._patterns or executions <= 0:
            return False
        matched = sum(count for user, count in users.items() if user is not None and self._matches(user))
        return matched >= executions

    def _matches(self, user: str) -> bool:
        return any(pattern.search(user) for pattern in self._patterns)


def mostly_fails(failed: int, executions: int, filters: HistoryFilters) -> bool:
    """Say whether a statement is left out for its failures: all of its executions, or as many as the settings say."""
    rate = failed / executions if executions else 0.0
    if rate >= 1:
        return True
    share, least = filters.drop_failed_below.error_rate, filters.drop_failed_below.executions
    return share is not None and failed > 0 and rate >= share and executions >= (least or 0)


def noise(observation: Observation) -> str | None:
    """Return why a statement does not count before anybody reads it, None where it does."""
    if is_own(observation.text):
        return "sent by ktx"
    return None if is_query(observation.text) else "not a query"


def _without_line_comments(text: str) -> str:
    """Return a text without the `#` and `--` lines it begins with, which not every server reads alike."""
    lines = text.lstrip().splitlines()
    while lines and lines[0].lstrip().startswith(("--", "#")):
        lines.pop(0)
    return "\n".join(lines)
