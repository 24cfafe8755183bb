"""Checks the semantic layers of a served project, and tells of the rows no more than an agent may know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ktx_cli.context.semantic.model import Problem
from ktx_cli.jobs.semantic.validating import Validation, validate_layers
from ktx_cli.jobs.serving.project import ServedProject
from ktx_cli.jobs.serving.telling import may_quote_rows
from ktx_cli.jobs.serving.watching import Watch

_OF_THE_DATABASE: Final = frozenset({"not_readable", "refused"})
"""Codes of problems that repeat a database's words."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What was found. `unread`: why the data of a connection could not be looked at, by its id."""

    found: Validation
    problems: tuple[tuple[str, Problem], ...]
    unread: dict[str, str]


def validate_served(
    project: ServedProject,
    names: Sequence[str],
    connection: str | None,
    *,
    data: bool,
    seconds: float,
    privacy: bool,
    watch: Watch,
) -> Checked:
    """Return what is wrong with the named sources, or all; raises as `validate_layers`."""
    watch.said(0.0, "reading the definitions")
    config = project.config()
    found = validate_layers(
        project.layout,
        config,
        names,
        environ=project.environ,
        connection=connection,
        data=data,
        seconds=seconds,
        load=project.load_layer,
        opener=watch.opener(project.pool.open),
    )
    watch.check()
    watch.said(1.0, "checked")
    ids = {each for each, _ in found.sources} | set(found.unread)
    careful = {
        each for each in ids if not may_quote_rows(project.load_layer(project.layout, config, each), privacy=privacy)
    }
    problems = tuple((of, _without_words(each) if of in careful else each) for of, each in found.problems)
    unread = {
        of: f"the database could not be asked ({error.code})" if of in careful else error.message
        for of, error in found.unread.items()
    }
    return Checked(found, problems, unread)


def _without_words(problem: Problem) -> Problem:
    """Return the problem without what a database said, which may quote rows."""
    if problem.code not in _OF_THE_DATABASE:
        return problem
    told = f"`{problem.source}` cannot be read: the database refused it (its words may hold values of rows)"
    return replace(problem, message=told, hint="look at its table, columns and expressions")
