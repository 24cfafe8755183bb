"""Turns pairs, composite pairs and branches into edges: status, cardinality, one line of reason."""

from __future__ import annotations

from dataclasses import replace

from ktx_cli.context.scan.names import quoted
from ktx_cli.context.scan.relationships.composites import CompositePair
from ktx_cli.context.scan.relationships.facts import ColumnFacts, TableFacts
from ktx_cli.context.scan.relationships.features import FEATURES
from ktx_cli.context.scan.relationships.model import Cardinality, Check, Edge, EdgeStatus, KeyChoice
from ktx_cli.context.scan.relationships.pairs import Pair
from ktx_cli.context.scan.relationships.polymorphic import Branch
from ktx_cli.context.scan.relationships.wording import found_of, reason_of
from ktx_cli.project.config.scan import Relationships

MOST_VIOLATIONS = 0.08
"""Edges of which a larger share of rows finds nothing are for a person to judge."""

NOT_CHECKED = "not checked: time budget"
"""The reason of an edge whose rows were not looked at any more."""

SURE_ROWS = 30
"""From so many rows on, a column in which nothing repeats is taken for one in which nothing can."""


def sampled_check(pair: Pair) -> Check | None:
    """Return what the samples say of a pair; None where there are no rows to tell by."""
    if pair.overlap is None or not pair.overlap.rows:
        return None
    return Check(pair.overlap.rows, pair.overlap.missing, pair.overlap.exact)


def status_of(score: float, check: Check | None, settings: Relationships, *, empty: bool = False) -> EdgeStatus:
    """Return the status of an edge that won its column: what no row shows is for a person to accept.

    `empty`: one of the two has no values, so that nothing speaks against the edge either; such an edge is not rejected.
    """
    if score < settings.review_threshold:
        return EdgeStatus.REVIEW if empty else EdgeStatus.REJECTED
    if score < settings.accept_threshold:
        return EdgeStatus.REVIEW
    if check is None:
        return EdgeStatus.REVIEW if settings.validation_required_for_manifest else EdgeStatus.ACCEPTED
    return EdgeStatus.ACCEPTED if check.violations <= MOST_VIOLATIONS else EdgeStatus.REVIEW


def edge_of_pair(
    pair: Pair, status: EdgeStatus, check: Check | None, reason: str | None = None, *, unique: bool = False
) -> Edge:
    """Return the edge of one column; `unique`: whether the child's values are known not to repeat in all its rows."""
    return Edge(
        child=pair.child.table.table.ref,
        child_columns=(pair.child.name,),
        parent=pair.key.table.table.ref,
        parent_columns=(pair.key.name,),
        status=status,
        score=round(pair.score, 3),
        reason=reason or reason_of(pair, check, status),
        cardinality=Cardinality.ONE_TO_ONE if unique else _cardinality((pair.child,)),
        sources=tuple(sorted(pair.sources)),
        check=check,
        features=dict(zip(FEATURES, pair.values, strict=True)),
    )


def edge_of_composite(pair: CompositePair, settings: Relationships, *, late: bool = False) -> Edge:
    """Return the edge of several columns; `late`: the time was up before its rows were looked at."""
    status = status_of(pair.score, pair.check, settings)
    return Edge(
        child=pair.child[0].table.table.ref,
        child_columns=tuple(column.name for column in pair.child),
        parent=pair.key[0].table.table.ref,
        parent_columns=tuple(column.name for column in pair.key),
        status=EdgeStatus.REVIEW if late or pair.check is None else status,
        score=round(pair.score, 3),
        reason=NOT_CHECKED if late else _reason_of_composite(pair),
        cardinality=_cardinality(pair.child),
        sources=tuple(sorted({"names", "values"} | pair.sources)),
        check=pair.check,
    )


def _reason_of_composite(pair: CompositePair) -> str:
    found = "the values could not be compared" if pair.check is None else found_of(pair.check)
    return f"{found}; the columns match the composite key"


def edge_of_branch(branch: Branch, settings: Relationships) -> Edge:
    """Return the edge of one value of a discriminator."""
    score = 0.95 if branch.named >= 0.75 else 0.8
    return Edge(
        child=branch.child.table.table.ref,
        child_columns=(branch.child.name,),
        parent=branch.key.table.table.ref,
        parent_columns=(branch.key.name,),
        status=status_of(score, branch.check, settings),
        score=score,
        reason=_reason_of_branch(branch),
        sources=("values",),
        check=branch.check,
        condition=(branch.discriminator.name, branch.value),
    )


def _reason_of_branch(branch: Branch) -> str:
    said = "names the table" if branch.named else "goes with this table alone"
    return f"{found_of(branch.check)}; {quoted(branch.discriminator.name)} {said}"


def with_sure_cardinality(edge: Edge, child: TableFacts, choice: KeyChoice | None) -> Edge:
    """Return the edge, one-to-one only where that is no accident of the rows.

    A key of its own makes it so, declared or chosen; else enough rows without a repetition, unless the columns are part
    of a key: a table between two others repeats either of them sooner or later.
    """
    if edge.cardinality is not Cardinality.ONE_TO_ONE:
        return edge
    columns = set(edge.child_columns)
    primary = set(child.table.primary_key or (choice.primary if choice is not None else ()))
    declared = any(set(key.columns) <= columns for key in child.table.unique_keys)
    if columns == primary or declared or (child.rows >= SURE_ROWS and not columns & primary):
        return edge
    return replace(edge, cardinality=Cardinality.MANY_TO_ONE)


def order(edge: Edge) -> tuple[object, ...]:
    """Return what edges are sorted by: their tables and columns."""
    child, parent = edge.child, edge.parent
    return (
        child.schema or "",
        child.name,
        edge.child_columns,
        parent.schema or "",
        parent.name,
        edge.parent_columns,
        str(edge.condition),
    )


def _cardinality(columns: tuple[ColumnFacts, ...]) -> Cardinality:
    table = columns[0].table
    if not table.complete:
        return Cardinality.MANY_TO_ONE
    values = [table.sampled.values[column.name] for column in columns]
    rows = [row for row in zip(*values, strict=True) if None not in row]
    return Cardinality.ONE_TO_ONE if len(rows) > 1 and len(set(rows)) == len(rows) else Cardinality.MANY_TO_ONE
