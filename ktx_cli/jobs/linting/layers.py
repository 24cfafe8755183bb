"""The KTX3 rules: what `ktx sl validate` finds without a look at the data, and joins nobody decided on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ktx_cli.context.scan.catalog import ParsedCopies
from ktx_cli.context.scan.records import RELATIONSHIPS
from ktx_cli.context.scan.review import Standing, counted, read_review
from ktx_cli.context.semantic.model import Model, Problem
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.text import plural, shell_words
from ktx_cli.jobs.linting.model import Finding, Level
from ktx_cli.jobs.linting.registry import LAYER, NO_CONNECTION, TO_REVIEW, rule_of
from ktx_cli.jobs.relationships import WorkingFiles
from ktx_cli.jobs.semantic.validating import validate_layers
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import DATABASE_SOURCE, SEMANTIC_NAME, Layout


def lint_layers(layout: Layout, config: KtxConfig, models: Mapping[str, Model], wanted: Iterable[str]) -> list[Finding]:
    """Return what is wrong with the definitions of the wanted connections; `models`: of all of them."""
    found: list[Finding] = []
    for connection in wanted:
        checked = validate_layers(
            layout, config, environ={}, connection=connection, data=False, load=lambda *asked: models[asked[2]]
        )
        found += [_problem(connection, each) for _, each in checked.problems]
        if connection not in config.connections:
            found.append(_unknown(connection))
    return found


def _problem(connection: str, problem: Problem) -> Finding:
    rule = rule_of(LAYER, problem.code)
    fix = problem.hint or f"correct {problem.place.path}"
    path = problem.place.path or None
    return Finding(
        rule.code, Level(problem.severity), problem.message, fix, path, problem.place.line if path else 1, connection
    )


def _unknown(connection: str) -> Finding:
    said = f"ktx.yaml has no connection `{connection}`, of which there is a semantic layer"
    folder = f"{SEMANTIC_NAME}/{connection}"
    fix = f"add it to ktx.yaml, or remove the folder: {shell_words('git', 'rm', '-r', folder)}"
    return Finding(NO_CONNECTION, Level.WARNING, said, fix, connection=connection)


def lint_joins(layout: Layout, connections: Iterable[str]) -> tuple[list[Finding], list[ResultWarning]]:
    """Return how many found joins of each connection wait for a person; a warning for a record nobody can read."""
    found, warnings = [], []
    for connection in connections:
        try:
            review = read_review(WorkingFiles(layout.root), connection, ParsedCopies(layout, connection))
        except KtxError as error:
            warnings.append(ResultWarning("relationships_unreadable", error.message, hint=error.hint))
            continue
        waiting = 0 if review is None else counted(review.edges).get(Standing.REVIEW, 0)
        if waiting:
            found.append(_waiting(connection, waiting))
    return found, warnings


def _waiting(connection: str, count: int) -> Finding:
    said = f"{plural(count, 'found join')} of `{connection}` {'waits' if count == 1 else 'wait'} for a decision"
    fix = shell_words("ktx", "scan", "relationships", connection, "--review")
    path = Layout.raw_path(connection, DATABASE_SOURCE, RELATIONSHIPS)
    return Finding(TO_REVIEW, Level.INFO, said, fix, path, connection=connection)
