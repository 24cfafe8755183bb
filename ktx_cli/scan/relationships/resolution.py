"""The one step that looks at all edges together: one parent a column, the nearest of several, no circles of keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ktx_cli.project import Relationships
from ktx_cli.scan.relationships.composites import Branch, CompositePair
from ktx_cli.scan.relationships.facts import ColumnFacts, TableFacts
from ktx_cli.scan.relationships.features import FEATURES, Pair, context
from ktx_cli.scan.relationships.keys import own_name
from ktx_cli.scan.relationships.model import Cardinality, Check, Edge, EdgeStatus, KeyChoice
from ktx_cli.semantic import quoted
from ktx_cli.warehouses import TableRef

CLOSE = 0.12
"""Parents whose scores differ by less are told apart by which of them is nearest."""

SEEN = 0.4
"""From this score on a key with rows comes before one without."""


@dataclass(slots=True)
class Resolved:
    """The one pair of each child, and why each other pair lost against it."""

    winners: list[Pair]
    lost: dict[int, str] = field(default_factory=dict)


def resolve(pairs: Sequence[Pair], threshold: float) -> Resolved:
    """Choose one parent for each column. `threshold`: the score from which an edge can be part of a circle."""
    by_child: dict[ColumnFacts, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_child[pair.child].append(pair)
    best = {child: _at_home(max(group, key=_rank), group) for child, group in by_child.items()}
    resolved = Resolved([])
    for child, group in by_child.items():
        winner = _nearest(best[child], group, best)
        resolved.winners.append(winner)
        for pair in group:
            if pair is not winner:
                resolved.lost[id(pair)] = f"{quoted(child.name)} fits {named(winner.key)} better"
    _break_circles(resolved, by_child, threshold)
    return resolved


def _rank(pair: Pair) -> tuple[bool, float, float, float, int, int]:
    """Return what pairs of a column are compared by: a key whose rows hold the values comes before one without rows."""
    share = 0.0 if pair.overlap is None else pair.overlap.hits / max(1, pair.key.distinct)
    seen = not pair.only_orphans and pair.score >= SEEN
    return (seen, round(pair.score, 3), pair.named.best, share, -pair.key.table.number, -pair.key.position)


def _at_home(winner: Pair, group: Sequence[Pair]) -> Pair:
    """Return the winner's namesake in the child's own schema, where there is one that holds the values as well."""
    schema = winner.child.table.table.ref.schema
    namesakes = [
        pair
        for pair in group
        if pair.key.table.table.ref == TableRef(schema, winner.key.table.table.ref.name)
        and pair.key.name == winner.key.name
        and _violations(pair) <= _violations(winner) + 0.001
    ]
    return namesakes[0] if namesakes else winner


def _nearest(winner: Pair, group: Sequence[Pair], best: Mapping[ColumnFacts, Pair]) -> Pair:
    """Return the parent nearest to the child among close ones: one that itself refers to the winner's key."""
    current = winner
    for _ in range(len(group)):
        nearer = [
            pair
            for pair in group
            if pair is not current
            and pair.score >= winner.score - CLOSE
            and _refers(pair.key, current.key, best)
            and not _refers(current.key, pair.key, best)
            and _violations(pair) <= _violations(current) + 0.001
            and _closeness(pair) >= _closeness(current)
        ]
        if not nearer:
            return current
        current = max(nearer, key=lambda pair: (_closeness(pair), _rank(pair)))
    return current


def _closeness(pair: Pair) -> float:
    """Return how near a parent is to a child by their names and by how much of it the child covers.

    A child of a subtype speaks of it, or fills it; else the reference is meant for the table whose own key it is.
    """
    filled = pair.overlap is not None and pair.overlap.hits >= 0.995 * max(pair.key.table.rows, 1)
    return pair.named.best + 0.5 * context(pair.child, pair.key) + 0.5 * own_name(pair.key) + 0.4 * filled


def _refers(key: ColumnFacts, other: ColumnFacts, best: Mapping[ColumnFacts, Pair]) -> bool:
    pair = best.get(key)
    return pair is not None and pair.key is other and pair.score >= 0.5


def _violations(pair: Pair) -> float:
    return 1.0 if pair.overlap is None else pair.overlap.violations


def _break_circles(resolved: Resolved, by_child: Mapping[ColumnFacts, Sequence[Pair]], threshold: float) -> None:
    """Drop the weakest edge of every circle of keys that refer to one another: keys cannot all descend from another."""
    at = {pair.child: pair for pair in resolved.winners if pair.score >= threshold and pair.child is not pair.key}
    for start in sorted(at, key=_place):
        while circle := _circle_from(start, at):
            weakest = min(circle, key=_rank)
            del at[weakest.child]
            resolved.winners.remove(weakest)
            resolved.lost[id(weakest)] = f"{named(weakest.key)} leads back to {named(weakest.child)}"
            _second_choice(resolved, by_child[weakest.child], at, threshold)


def _place(column: ColumnFacts) -> tuple[int, int]:
    return (column.table.number, column.position)


def _circle_from(start: ColumnFacts, at: Mapping[ColumnFacts, Pair]) -> list[Pair]:
    """Return the circle that following the edges from a column ends in; nothing where they end."""
    path: list[Pair] = []
    column = start
    while column in at:
        seen = next((number for number, pair in enumerate(path) if pair.child is column), None)
        if seen is not None:
            return path[seen:]
        path.append(at[column])
        column = at[column].key
    return []


def _second_choice(resolved: Resolved, group: Sequence[Pair], at: dict[ColumnFacts, Pair], threshold: float) -> None:
    """Give a column whose edge was dropped its next best one that leads into no circle."""
    rest = [pair for pair in group if not _leads_back(pair, at)]
    if not rest:
        return
    pair = max(rest, key=_rank)
    resolved.winners.append(pair)
    resolved.lost.pop(id(pair), None)
    if pair.score >= threshold:
        at[pair.child] = pair


def _leads_back(pair: Pair, at: Mapping[ColumnFacts, Pair]) -> bool:
    column = pair.key
    for _ in range(len(at) + 1):
        if column is pair.child:
            return True
        if column not in at:
            return False
        column = at[column].key
    return False


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
    relation = "names the table" if branch.named else "goes with this table alone"
    return f"{found_of(branch.check)}; {quoted(branch.discriminator.name)} {relation}"


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


def reason_of(pair: Pair, check: Check | None, status: EdgeStatus) -> str:
    """Return what speaks for and against an edge."""
    parts = [_values(pair, check), _name(pair)]
    if status is EdgeStatus.REVIEW and pair.empty:
        parts.append("the rows cannot tell")
    return "; ".join(part for part in parts if part)


def named(column: ColumnFacts) -> str:
    """Return a column as edges name it: `orders.id`, in double quotes what is no plain word."""
    ref = column.table.table.ref
    parts = (ref.name, column.name) if ref.schema is None else (ref.schema, ref.name, column.name)
    return ".".join(map(quoted, parts))


def _values(pair: Pair, check: Check | None) -> str:
    if check is None:
        return "no values to compare" if pair.empty else "the values could not be compared"
    found = found_of(check) + _but_blank(pair)
    return found if check.exact else f"{found} (sample)"


def _but_blank(pair: Pair) -> str:
    """Return which value was taken for NULL, and how many rows have it: ` but 99999 (1,000 rows)`."""
    if pair.overlap is None or pair.overlap.blank is None:
        return ""
    blank, rows, sample = pair.overlap.blank, pair.overlap.blank_rows, pair.child.profile.filled
    value = f'"{blank.strip().lower()}"' if isinstance(blank, str) else f"{blank}"
    share = f"{rows * 1000 // sample / 10:g} % of the sample"
    many = f"{rows:,} {'row' if rows == 1 else 'rows'}" if pair.child.table.complete else share
    return f" but {value} ({many})"


def _name(pair: Pair) -> str:
    if pair.named.key >= 0.85:
        return "named as the key is"
    if pair.named.table >= 0.75:
        return "named after the table"
    if pair.named.best >= 0.4:
        return "the name is near"
    return "the name may mean the table" if pair.named.meaning else "the name says nothing"


def found_of(check: Check) -> str:
    """Return how many rows find their parent."""
    return "every value is found" if not check.missing else f"{_share(check)} of rows are found"


def _share(check: Check) -> str:
    """Return the share that is found as per cent, never rounded up to all of it: `99.9 %`."""
    return f"{(check.rows - check.missing) * 1000 // check.rows / 10:g} %"
