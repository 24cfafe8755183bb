"""What git holds of the project: the branch, and the files of ktx that are not committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import listing, plural
from ktx_cli.project.layout import CONFIG_NAME, PROMPTS_NAME, RAW_NAME, SEMANTIC_NAME, WIKI_NAME
from ktx_cli.project.repository import Repository

PATHS: Final = (CONFIG_NAME, SEMANTIC_NAME, WIKI_NAME, RAW_NAME, PROMPTS_NAME, "evals")
"""What of a project ktx reads or writes."""


@dataclass(frozen=True, slots=True)
class GitFacts:
    """The repository and its branch; `top_level` None: there is none. `problem`: why nothing is known of it."""

    top_level: Path | None = None
    branch: str | None = None
    upstream: str | None = None
    ahead: int | None = None
    behind: int | None = None
    uncommitted: tuple[str, ...] = ()
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the facts as they stand in the envelope."""
        return {
            "repository": None if self.top_level is None else str(self.top_level),
            "branch": self.branch,
            "upstream": self.upstream,
            "ahead": self.ahead,
            "behind": self.behind,
            "uncommitted": list(self.uncommitted),
            "problem": self.problem,
        }

    @property
    def text(self) -> str:
        """The facts in one line."""
        if self.problem is not None or self.top_level is None:
            return self.problem or "no repository yet"
        parts = ["detached HEAD" if self.branch is None else f"on {self.branch}"]
        for count, where in ((self.ahead, "ahead of"), (self.behind, "behind")):
            if count:
                parts.append(f"{plural(count, 'commit')} {where} {self.upstream}")
        changed = f"{len(self.uncommitted):,} uncommitted: {listing(self.uncommitted, 3)}" if self.uncommitted else ""
        return ", ".join((*parts, changed or "nothing uncommitted"))


def git_facts(discover: Callable[[], Repository | None]) -> GitFacts:
    """Ask git, which locks nothing and writes nothing; a repository it does not open is the `problem`."""
    try:
        repository = discover()
        if repository is None:
            return GitFacts()
        found = repository.changes(PATHS)
    except KtxError as error:
        return GitFacts(problem=error.message)
    top = repository.layout.top_level
    return GitFacts(top, found.branch, found.upstream, found.ahead, found.behind, found.uncommitted)
