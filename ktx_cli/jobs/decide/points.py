"""The decision points of a project: read with their answers and effects, found by what people type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ktx_cli.core import Command, Hint, KtxError, ResultWarning, UsageError, did_you_mean, listing, one_line
from ktx_cli.jobs.decide.effects import load_effects
from ktx_cli.project import KtxConfig, Layout, Tree, WorkingTree
from ktx_cli.scan import read_decisions
from ktx_cli.semantic import DecisionPoint, Decisions, LoadLayer, Model, layer_ids, load_answers, load_layer

COMMAND = Command("decide")


@dataclass(frozen=True, slots=True)
class LoadedDecisions:
    """The decisions of a connection and the model whose names they have."""

    model: Model
    decisions: Decisions


def load_decisions(tree: Tree, model: Model, layout: Layout | None = None) -> LoadedDecisions:
    """Return the decision points of a connection, with the answers of people.

    `layout`: of the project whose state database has the effects; None: without them. Raises `ConfigError` for a
    `decisions.yaml` that cannot be read, `KtxError` for a damaged record.
    """
    answers = tuple(load_answers(tree, model.connection))
    found = read_decisions(tree, model)
    effects = () if layout is None or not found.points else load_effects(layout, model.connection)
    decisions = replace(found, connection=model.connection, answers=answers, effects=effects)
    return LoadedDecisions(model, decisions.answered())


def read_all(
    layout: Layout, config: KtxConfig, connection: str | None = None, *, load: LoadLayer = load_layer
) -> tuple[list[LoadedDecisions], list[ResultWarning]]:
    """Return the decisions of a connection, or of all databases that have a semantic layer, from the working tree.

    A record that cannot be read is a warning. Raises `ConfigError` for a `decisions.yaml` that cannot be read.
    """
    tree = WorkingTree(layout.root)
    known = [each for each in layer_ids(layout) if each in config.databases()]
    found, warnings = [], []
    for each in known if connection is None else [connection]:
        model = load(layout, config, each)
        try:
            found.append(load_decisions(tree, model, layout))
        except KtxError as error:
            if error.exit_code == 2:
                raise
            warnings.append(ResultWarning("decisions_unreadable", error.message, hint=error.hint, connection=each))
    return found, warnings


def find_point(loaded: Sequence[LoadedDecisions], word: str) -> tuple[LoadedDecisions, DecisionPoint]:
    """Return the point of an id, or of `connection/id`; `UsageError` for none (with the nearest) or several."""
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
