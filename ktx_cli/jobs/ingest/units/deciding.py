"""What became of the artifacts of deleted files: decided by the loop over a whole run, or still to decide."""

from __future__ import annotations

from ktx_cli.context.wiki.keys import GLOBAL, page_path
from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.text import listing
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.jobs.ingest.units.needed import evicted
from ktx_cli.jobs.ingest.units.reconciling import Reconciled
from ktx_cli.project.tree import Tree


def decided(work: SourceWork, reconciled: Reconciled, tree: Tree) -> tuple[frozenset[str], list[ResultWarning]]:
    """Return the deleted raw files of which nothing is left to decide, and a warning for each of the others.

    A page that is not in `tree` needs no decision. Where the loop did not come to its end nothing is decided, and its
    problem says so.
    """
    if reconciled.problem or not reconciled.steps:
        return frozenset(), []
    records = reconciled.session.get("records", {}).get("evictions", ())
    said = {(each["raw_path"], each["artifact"]) for each in records}
    done, warnings = set[str](), list[ResultWarning]()
    for path, artifacts in evicted(work).items():
        left = [each for each in artifacts if (path, each) not in said and not _is_gone(each, tree)]
        if left:
            warnings.append(_undecided(work, path, left))
        else:
            done.add(path)
    return frozenset(done), warnings


def _is_gone(artifact: str, tree: Tree) -> bool:
    kind, _, name = artifact.partition(":")
    return kind == "wiki" and tree.read(page_path(GLOBAL, name)) is None


def _undecided(work: SourceWork, path: str, artifacts: list[str]) -> ResultWarning:
    return ResultWarning(
        "undecided",
        f"`{path}` of `{work.connection}` is gone, and the model left undecided what becomes of {listing(artifacts)}",
        hint="the next run with a model asks again; a page you delete needs no decision",
        connection=work.connection,
        path=path,
        artifacts=artifacts,
    )
