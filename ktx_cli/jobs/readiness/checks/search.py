"""The check that the search index has the files as they are now."""

from __future__ import annotations

from ktx_cli.core.errors import ResultWarning
from ktx_cli.jobs.readiness.model import CheckContext, Finding, Level
from ktx_cli.jobs.search import index_project, open_searcher

CHECK = "index"


def check_index(context: CheckContext) -> list[Finding]:
    """The index is there, whole, and has every file as it is, with vectors where embeddings are configured."""
    searcher = open_searcher(context.layout, context.loaded.config, context.environ)
    try:
        drift = searcher.drift()
    finally:
        searcher.close()
    if not drift:
        return [Finding(CHECK, Level.OK, "the search index has the files as they are")]
    return [
        # what a search does about it, behind the semicolon or before the colon, is of no concern here
        Finding(CHECK, Level.WARN, _told(warning), warning.hint, repair=lambda: _rebuilt(context))
        for warning in drift
    ]


def _told(warning: ResultWarning) -> str:
    return warning.message.partition(";")[0].removeprefix("searched by words alone: ")


def _rebuilt(context: CheckContext) -> str:
    done = index_project(context.layout, context.loaded.config, context.environ, warn=lambda warning: None)
    if done.error is not None:
        raise done.error
    return (
        f"wrote the search index: {done.added:,} documents added, {done.removed:,} removed, {done.documents:,} in all"
    )
