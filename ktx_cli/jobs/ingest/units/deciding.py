"""What became of the artifacts of deleted files: decided by the loop over a whole run, or still to decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktx_cli.context.wiki.keys import GLOBAL, page_path
from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.text import listing
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.jobs.ingest.units.needed import evicted
from ktx_cli.jobs.ingest.units.reconciling import Reconciled
from ktx_cli.project.tree import Tree


def decided(work: SourceWork, reconciled: Reconciled, tree: Tree) -> tuple[frozenset[str], list[ResultWarning]]:
    """Return the deleted raw files of which nothing is left to decide, and a warning where there are others.

    A page that is not in `tree` needs no decision. Where the loop did not come to its end nothing is decided, and its
    problem says so.
    """
    if reconciled.problem or not reconciled.steps:
        return frozenset(), []
    records = reconciled.session.get("records", {}).get("evictions", ())
    begun = f"{work.connection}/"
    own = [each for each in records if each["raw_path"].startswith(begun)]
    said = {(each["raw_path"].removeprefix(begun), each["artifact"]) for each in own}
    left = {
        path: [each for each in artifacts if (path, each) not in said and not _is_gone(each, tree)]
        for path, artifacts in evicted(work).items()
    }
    undecided = {path: artifacts for path, artifacts in left.items() if artifacts}
    return frozenset(left) - frozenset(undecided), [_warning(work, undecided)] if undecided else []


def _is_gone(artifact: str, tree: Tree) -> bool:
    kind, _, name = artifact.partition(":")
    return kind == "wiki" and tree.read(page_path(GLOBAL, name)) is None


def _warning(work: SourceWork, undecided: Mapping[str, Sequence[str]]) -> ResultWarning:
    artifacts = sorted({each for found in undecided.values() for each in found})
    return ResultWarning(
        "undecided",
        f"{work.name}: the model left undecided what becomes of {listing(artifacts)}, "
        f"which came of files that are gone: {listing(sorted(undecided))}",
        hint="the next run with a model asks again; a page you delete needs no decision",
        connection=work.connection,
        files={path: list(found) for path, found in undecided.items()},
    )
