"""Which random questions the specification answers in one way only; the others are not compared.

Left out: two ways to many rows of which one goes on from the other (whether conditions on both mean the same joined
row is open); a path over a join to one row and back over one to many, or backwards over a role, or ambiguous there;
members that two facts reach by different paths; that lead to one another, or to what a condition names, by a path the
fact does not take; or that lead back to a fact with conditions; that are a fact's own columns beside others; a running
measure in periods of another fact alone.
"""

from __future__ import annotations

from tests.semantic_oracle.cases.base import Case
from tests.semantic_oracle.oracle.binding import Cumulative, leaves
from tests.semantic_oracle.oracle.errors import OracleError
from tests.semantic_oracle.oracle.frames import Frame, many_part
from tests.semantic_oracle.oracle.measuring import Measuring
from tests.semantic_oracle.oracle.model import Edge, Model, Path
from tests.semantic_oracle.oracle.question import Question
from tests.semantic_oracle.oracle.rows import World
from tests.semantic_oracle.oracle.times import Calendar


def is_clear(case: Case) -> bool:
    """Whether a case has one meaning; a refused one has, its refusal."""
    try:
        frames = _frames(case)
        paths = [_paths(frame) for frame in frames]
    except OracleError as error:
        return not error.over_many
    plain = all(_is_plain(each, frames[0].question.model) for each in paths)
    alike = len({_roots(frame) for frame in frames}) <= 1
    hidden = case.query.get("include_empty") is False
    return (
        plain
        and alike
        and not _is_carried(frames)
        and (hidden or not any(_has_two_ways(each) or _is_turned(each) for each in frames))
        and (hidden or not _is_own_beside(frames))
    )


def _frames(case: Case) -> list[Frame]:
    model = Model(case.world.sources)
    question = Question(model, case.query, None)
    measuring = Measuring(question, World(model, case.world.behind(), {}, {}), Calendar())
    bounds = [bound for _, bound in question.measures]
    bounds += [each for _, parts in question.tests for each in parts.values() if not isinstance(each, int)]
    return [measuring.frame(leaf.fact, leaf.time) for bound in bounds for leaf in leaves(bound)]


def _paths(frame: Frame) -> tuple[set[Path], set[Path]]:
    """Return the paths to many rows of the dimensions and of the filters."""
    shown = {column.place.path for column in frame.columns}
    filtered = {path for each in frame.question.filters for path in frame.paths(each)}
    return {many_part(path) for path in shown if many_part(path)}, {many_part(p) for p in filtered if many_part(p)}


def _is_plain(paths: tuple[set[Path], set[Path]], model: Model) -> bool:
    everything = paths[0] | paths[1]
    nested = any(a != b and b[: len(a)] == a for a in everything for b in everything)
    return not nested and not any(edge.one or _is_paired(edge, model) for path in everything for edge in path)


def _is_paired(edge: Edge, model: Model) -> bool:
    """Whether two sources are joined more than once."""
    return sum(each.source == edge.source and each.target == edge.target for each in model.edges) > 1


def _is_carried(frames: list[Frame]) -> bool:
    """Whether a running measure is asked beside another fact, whose periods it may have no row in."""
    running = any(isinstance(bound, Cumulative) for _, bound in frames[0].question.measures) if frames else False
    return running and len({frame.fact for frame in frames}) > 1


def _has_two_ways(frame: Frame) -> bool:
    """Whether a dimension's source leads to that of another or of a condition, but not on the fact's way to it."""
    shown = {column.place.path for column in frame.columns if column.place.path}
    named = shown | {path for each in frame.question.filters for path in frame.paths(each) if path}
    reaches = frame.question.names.router.is_one
    return any(
        one != other[: len(one)] and reaches(one[-1].target, other[-1].target) for one in shown for other in named
    )


def _is_own_beside(frames: list[Frame]) -> bool:
    """Whether one of several dimensions is a column of a fact itself, and there are other facts."""
    several = len({frame.fact for frame in frames}) > 1
    return several and any(
        len(frame.columns) > 1 and any(not column.place.path for column in frame.columns) for frame in frames
    )


def _is_turned(frame: Frame) -> bool:
    """Whether members lie over a join to many rows while there are conditions, which may be the fact's or theirs."""
    return bool(frame.question.filters) and any(many_part(column.place.path) for column in frame.columns)


def _roots(frame: Frame) -> tuple[tuple[int, ...], ...]:
    """Return which dimensions lie behind one another, as places of the nearest."""
    paths = [column.place.path for column in frame.columns]
    return tuple(tuple(at for at, other in enumerate(paths) if path[: len(other)] == other) for path in paths)
