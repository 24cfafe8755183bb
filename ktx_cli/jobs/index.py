"""Update the search index, and the counts for `ktx status`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ktx_cli.agent_tools import contents_of
from ktx_cli.core import Command, Emit, KtxError, ResultWarning, ignore_events, new_run_id
from ktx_cli.jobs.counts import keep_counts
from ktx_cli.jobs.semantic.statuses import keep_statuses
from ktx_cli.project import WorkingTree, file_name_warnings, hold_run_lock
from ktx_cli.scan import ends_more, unexpected
from ktx_cli.search import Refreshed, index_of, refresh
from ktx_cli.semantic import store_layers

if TYPE_CHECKING:
    from ktx_cli.engine import RunPlan
    from ktx_cli.llm import Embedder
    from ktx_cli.project import KtxConfig, Layout

log = logging.getLogger(__name__)


def refresh_index(
    layout: Layout,
    config: KtxConfig,
    environ: Mapping[str, str],
    *,
    emit: Emit = ignore_events,
    check_length: bool = False,
) -> Refreshed:
    """Update the search index and the counts for `ktx status`. The caller holds the run lock. See `refresh`.

    If embeddings fail, the result has an `error`, but the full-text index is up to date. Raises `StorageError`.
    """
    from ktx_cli.engine import keep_broken

    store_layers(layout, config)  # first, because the rest reads from the store
    keep_counts(layout, config)
    keep_broken(layout, config)
    keep_statuses(layout, config)
    return build_index(layout, config, environ, emit=emit, check_length=check_length)


def build_index(
    layout: Layout,
    config: KtxConfig,
    environ: Mapping[str, str],
    *,
    emit: Emit = ignore_events,
    check_length: bool = False,
) -> Refreshed:
    """Update the search index alone, also in a copy of a project. Raises `StorageError`."""

    def embedder() -> Embedder | None:
        if config.ingest.embeddings.backend == "none":
            return None
        from ktx_cli.llm import create_embedder

        return create_embedder(config, layout.root, environ)

    index = index_of(layout, config, environ)
    if index != layout.search_index:
        layout.search_index.unlink(missing_ok=True)  # the index from before it was shared
    contents, tree = contents_of(layout, config), WorkingTree(layout.root)
    return refresh(index, contents, tree, embedder=embedder, emit=emit, check_length=check_length)


def index_project(
    layout: Layout,
    config: KtxConfig,
    environ: Mapping[str, str],
    *,
    wait_seconds: float = 0.0,
    emit: Emit = ignore_events,
    warn: Callable[[ResultWarning], object],
) -> Refreshed:
    """Update the search index in a run of its own. Raises `BusyError` if another run holds the run lock."""
    with hold_run_lock(
        layout, run_id=new_run_id(), command=Command("index"), wait_seconds=wait_seconds, emit=emit, warn=warn
    ) as (lock, _):
        lock.check()
        for warning in file_name_warnings(layout.root):
            warn(warning)
        return refresh_index(layout, config, environ, emit=emit, check_length=True)


def index_after_run(plan: RunPlan, *, changed: bool) -> None:
    """Update the search index after a run. Errors become warnings, because the run is already committed.

    A run without changes does not create a missing index: after a fresh clone, `ktx index` does that.
    """
    if not changed and not plan.layout.search_index.exists() and not plan.layout.search_memo.exists():
        return
    try:
        problem = refresh_index(plan.layout, plan.config, plan.environ, emit=plan.emit).error
    except KtxError as error:
        problem = error
    except Exception as error:
        if ends_more(error):
            raise
        log.debug("the search index could not be updated", exc_info=error)
        problem = KtxError(f"the search index: {unexpected(type(error).__name__)}", hint=Command("index", "--debug"))
    if problem is not None:
        plan.warn(ResultWarning("not_indexed", problem.message, hint=problem.hint))
