"""Load the decision points of a project with their answers and effects, and store effects."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from ktx_cli.core import Command, Hint, KtxError, ResultWarning, UsageError, did_you_mean, listing, one_line
from ktx_cli.project import KtxConfig, Layout, StateDatabase, Tree, WorkingTree, read_state, transaction, translated
from ktx_cli.scan import read_decisions
from ktx_cli.semantic import DecisionPoint, Decisions, Effect, LoadLayer, Model, layer_ids, load_answers, load_layer

COMMAND = Command("decide")


@dataclass(frozen=True, slots=True)
class LoadedDecisions:
    """The decisions for a connection, and its model."""

    model: Model
    decisions: Decisions


def load_decisions(tree: Tree, model: Model, layout: Layout | None = None) -> LoadedDecisions:
    """Load a connection's decision points with people's answers and effects.

    `layout` is the project whose state database has the effects; without it, effects are not loaded. Raises
    `ConfigError` for an invalid `decisions.yaml`, and `KtxError` for a damaged record.
    """
    answers = tuple(load_answers(tree, model.connection))
    found = read_decisions(tree, model)
    effects = () if layout is None or not found.points else load_effects(layout, model.connection)
    decisions = replace(found, connection=model.connection, answers=answers, effects=effects)
    return LoadedDecisions(model, decisions.answered())


def save_effects(layout: Layout, database: StateDatabase, connection: str, effects: Collection[Effect]) -> None:
    """Replace the stored effects for a connection. Raises `StorageError`.

    A row without a point marks the effects as computed even if there are none.
    """
    rows = [(connection, each.point, each.measure, each.period, _readings(each)) for each in effects]
    rows.append((connection, "", "", None, "{}"))
    with translated(layout.state), transaction(database):
        database.execute("DELETE FROM decision_effects WHERE connection = ?", (connection,))
        database.executemany("INSERT INTO decision_effects VALUES (?, ?, ?, ?, ?)", rows)


def _readings(effect: Effect) -> str:
    return json.dumps({key: None if value is None else str(value) for key, value in effect.values.items()})


def load_effects(layout: Layout, connection: str) -> tuple[Effect, ...]:
    """Return the stored effects for a connection in the order of their computation. Raises `StorageError`."""

    def read(database: StateDatabase) -> list[tuple[str, str, str | None, str]]:
        asked = "SELECT point, measure, period, readings FROM decision_effects"
        return database.execute(
            f"{asked} WHERE connection = ? AND point <> '' ORDER BY rowid", (connection,)
        ).fetchall()

    rows = read_state(layout, read) or []
    return tuple(Effect(point, measure, _values(readings), period) for point, measure, period, readings in rows)


def _values(readings: str) -> dict[str, Decimal | None]:
    return {key: None if value is None else Decimal(value) for key, value in json.loads(readings).items()}


def read_all(
    layout: Layout,
    config: KtxConfig,
    connection: str | None = None,
    *,
    only: Collection[str] | None = None,
    load: LoadLayer = load_layer,
) -> tuple[list[LoadedDecisions], list[ResultWarning]]:
    """Return the decisions for a connection, or for all databases with a semantic layer, from the working tree.

    `only` limits the databases. An unreadable record leads to a warning. Raises `ConfigError` for an invalid
    `decisions.yaml`.
    """
    tree = WorkingTree(layout.root)
    known = [each for each in layer_ids(layout) if each in config.databases()]
    found, warnings = [], []
    known = known if only is None else [each for each in known if each in only]
    for each in known if connection is None else [connection]:
        model = load(layout, config, each)
        try:
            found.append(load_decisions(tree, model, layout))
        except KtxError as error:
            if error.exit_code == 2:
                raise
            message, hint = error.message, error.hint
            warnings.append(ResultWarning("decisions_unreadable", message, hint=hint, cause=error, connection=each))
    return found, warnings


def find_point(loaded: Sequence[LoadedDecisions], word: str) -> tuple[LoadedDecisions, DecisionPoint]:
    """Return the point with an id or `connection/id`. Raises `UsageError` if no or several points match."""
    matches = [
        (each, point)
        for each in loaded
        for point in each.decisions.points
        if word in (point.id, f"{each.decisions.connection}/{point.id}")
    ]
    if len(matches) == 1:
        return matches[0]
    shown = one_line(word, 120)
    if matches:
        names = [f"{each.decisions.connection}/{point.id}" for each, point in matches]
        message = f"{len(matches)} connections have a decision point `{shown}`: {listing(names)}"
        raise UsageError(message, hint=COMMAND.with_words(names[0]))
    ids = [point.id for each in loaded for point in each.decisions.points]
    near = did_you_mean(word, ids)
    hint = Hint("did you mean {}?", COMMAND.with_words(near)) if near else COMMAND
    raise UsageError(f"there is no decision point `{shown}`", hint=hint, details={"candidates": sorted(ids)[:50]})
