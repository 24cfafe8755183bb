"""Infers the keys and relationships of a database: candidates, their probabilities, and what all rows say of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from ktx_cli.core import SourceError, monotonic, plural
from ktx_cli.project import Relationships
from ktx_cli.scan.profile.counts import SampledTable
from ktx_cli.scan.relationships.candidates import (
    EXACT_ROWS,
    Prober,
    check_in_database,
    find_candidates,
    is_unique_in_database,
)
from ktx_cli.scan.relationships.columns import (
    Candidate,
    ColumnFacts,
    DatabaseFacts,
    Family,
    NameIndex,
    TableFacts,
    gather,
)
from ktx_cli.scan.relationships.composites import Branch, CompositeCandidate, find_branches, find_composites
from ktx_cli.scan.relationships.hints import Hints, HintSource, hints_of
from ktx_cli.scan.relationships.keys import Uniques, choose_keys, find_uniques, own_name
from ktx_cli.scan.relationships.ranker import (
    Ranker,
    branch_probability,
    context,
    load_ranker,
    rate_candidates,
)
from ktx_cli.scan.relationships.record import Cardinality, Check, Discovery, KeyChoice, Relationship, Status
from ktx_cli.scan.stages import STRICT, Failures, Stage
from ktx_cli.semantic import quoted
from ktx_cli.warehouses import Connector, Table, TableRef

MOST_CHECKS = 1000
"""How many references are checked on all rows unless `validationBudget` says otherwise."""


@dataclass(slots=True)
class Questions:
    """Answers questions about all rows. `until`: the moment (of `monotonic`) from which nothing is asked any more.

    `late`: the columns of references that were not checked for that.
    """

    connector: Connector
    settings: Relationships
    columns: int
    until: float | None = None
    queries: int = 0
    problems: list[str] = field(default_factory=list)
    late: set[tuple[ColumnFacts, ...]] = field(default_factory=set)
    lock: Lock = field(default_factory=Lock)

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self.until is not None and monotonic() >= self.until

    def check_pairs(self, pairs: Sequence[Candidate]) -> dict[int, Check | None]:
        """Return what all rows say of the pairs that may be accepted, the likeliest first, else what samples say."""
        checks = {id(pair): sampled_check(pair) for pair in pairs}
        self.late |= {(pair.child,) for pair in pairs if pair.late}
        open_ones = [pair for pair in pairs if self._worth_checking(pair, checks[id(pair)])]
        open_ones.sort(key=lambda pair: -pair.probability)
        chosen = open_ones[: self._budget()]
        with ThreadPoolExecutor(self.settings.validation_concurrency, thread_name_prefix="ktx-check") as pool:
            checks.update(zip(map(id, chosen), pool.map(self._check_pair, chosen), strict=True))
        return checks

    def _worth_checking(self, pair: Candidate, sampled: Check | None) -> bool:
        if pair.empty or pair.probability < self.settings.accept_threshold or (sampled is not None and sampled.exact):
            return False
        return _is_small_enough(pair.child.table, pair.key.table)

    def _check_pair(self, pair: Candidate) -> Check | None:
        blank = None if pair.overlap is None else pair.overlap.blank
        return self.check_rows([pair.child], [pair.key], blank)

    def _budget(self) -> int:
        budget = self.settings.validation_budget
        if budget is None:
            return MOST_CHECKS
        return self.columns if budget == "all" else budget

    def check_rows(
        self, columns: Sequence[ColumnFacts], keys: Sequence[ColumnFacts], blank: Any = None
    ) -> Check | None:
        """Return what all rows say of a reference; None where the database refuses, there are too many, or no time."""
        child, parent = columns[0].table, keys[0].table
        if not _is_small_enough(child, parent):
            return None
        with self.lock:
            if self.is_over:
                self.late.add(tuple(columns))
                return None
            self.queries += 1
        names, others = [column.name for column in columns], [key.name for key in keys]
        try:
            return check_in_database(self.connector, child.table, names, parent.table, others, blank=blank)
        except SourceError as error:
            self._note(f"{', '.join(map(str, columns))} -> {parent.table.ref} could not be checked", error)
            return None

    def is_unique(self, table: TableFacts, columns: Sequence[ColumnFacts]) -> bool | None:
        """Say whether columns are unique in all rows of a table; None when the database or the time does not tell."""
        if self.is_over:
            return None
        self.queries += 1
        try:
            return is_unique_in_database(self.connector, table.table, [column.name for column in columns])
        except SourceError as error:
            self._note(f"whether {', '.join(map(str, columns))} repeats could not be checked", error)
            return None

    def all_problems(self) -> tuple[str, ...]:
        """Return what went wrong, sorted; of what the time did not suffice for only how much it was."""
        late = [f"{plural(len(self.late), 'reference')} not checked: time budget"] if self.late else []
        return tuple(sorted([*self.problems, *late]))

    def _note(self, what: str, error: SourceError) -> None:
        if error.code == "connection":
            raise error
        self.problems.append(f"{what}: {error.message}")


def _is_small_enough(child: TableFacts, parent: TableFacts) -> bool:
    """Whether two tables may be joined whole."""
    return max(child.rows, parent.rows) <= EXACT_ROWS


def discover(
    connector: Connector,
    tables: Sequence[Table],
    sampled: Sequence[SampledTable],
    settings: Relationships,
    sources: Sequence[HintSource] = (),
    ranker: Ranker | None = None,
    *,
    seconds: float | None = None,
    failures: Failures = STRICT,
) -> Discovery:
    """Find the keys and joins of tables that were sampled. Declared keys are taken as given, declared joins left out.

    `seconds`: how long the database may be asked, at most `detectionBudgetMs`; what is not checked by then is put up
    for review, with that reason. A statement that fails costs only its edge. Raises `SourceError` when the database is
    gone. `failures`: takes what fails unexpectedly, as far as the rest does not need it; the strict default raises it.
    """
    facts = gather(connector.dialect, tables, sampled, failures)
    own = settings.detection_budget_ms
    limits = [each for each in (seconds, None if own is None else own / 1000) if each is not None]
    until = monotonic() + min(limits) if limits else None
    questions = Questions(connector, settings, len(facts.columns), until)
    return Inference(facts, settings, questions, sources, ranker or load_ranker(), failures).run()


@dataclass(slots=True)
class Inference:
    """The inference of one database: from facts to candidates, relationships and keys."""

    facts: DatabaseFacts
    settings: Relationships
    questions: Questions
    sources: Sequence[HintSource]
    ranker: Ranker
    failures: Failures

    def run(self) -> Discovery:
        """Return the keys and relationships."""
        uniques = find_uniques(self.facts.tables, self.questions.is_unique, self.failures)
        names = NameIndex(self.facts.tables, uniques.keys)
        hints = Hints()
        with self.failures.stage(Stage.HINTS):
            hints = hints_of(self.sources, self.facts, uniques.keys)
        pairs = self.ranked_pairs(uniques, names, hints)
        resolved = resolve(pairs, self.settings.accept_threshold)
        checks = self.questions.check_pairs(resolved.winners)
        accepted = [pair for pair in resolved.winners if self._status(pair, checks[id(pair)]) is Status.ACCEPTED]
        keys: dict[TableFacts, KeyChoice] = {}
        with self.failures.stage(Stage.KEYS):
            keys = choose_keys(uniques, accepted, names, self.questions.is_unique, self.failures)
        composites: list[CompositeCandidate] = []
        with self.failures.stage(Stage.COMPOSITES):
            check_rows = self.questions.check_rows
            composites = find_composites(self.facts.tables, keys, accepted, names, check_rows, hints.several)
        branches: list[Branch] = []
        with self.failures.stage(Stage.POLYMORPHIC):
            branches = find_branches(self.facts.tables, uniques.keys, names, self.failures)
        edges = self._edges(pairs, resolved, checks, composites, branches, set(uniques.keys))
        by_ref = {table.table.ref: table for table in self.facts.tables}
        edges = [with_sure_cardinality(edge, by_ref[edge.child], keys.get(by_ref[edge.child])) for edge in edges]
        return Discovery(
            keys={table.table.ref: choice for table, choice in keys.items()},
            edges=tuple(sorted(edges, key=order)),
            queries=self.questions.queries,
            problems=self.questions.all_problems(),
        )

    def ranked_pairs(self, uniques: Uniques, names: NameIndex, hints: Hints) -> list[Candidate]:
        """Return the pairs worth a look, with their scores."""
        questions = self.questions
        prober = Prober(questions.connector, lambda: questions.is_over)
        most = self.settings.max_candidates_per_column
        pairs = find_candidates(
            self.facts, uniques.keys, names, hints.single, prober, most=most, spoken_for=_declared(self.facts)
        )
        rate_candidates(self.ranker, self.facts.columns, pairs)
        questions.queries += prober.statements
        questions.problems += prober.problems
        return pairs

    def _edges(
        self,
        pairs: Sequence[Candidate],
        resolved: Resolved,
        checks: Mapping[int, Check | None],
        composites: Sequence[CompositeCandidate],
        branches: Sequence[Branch],
        identifying: Set[ColumnFacts],
    ) -> list[Relationship]:
        edges = [
            relationship_of_composite(pair, self.settings, late=pair.child in self.questions.late)
            for pair in composites
        ]
        implied = {
            id(single): f"reached through {quoted(pair.key[0].table.table.ref.name)}"
            for pair, edge in zip(composites, edges, strict=True)
            if edge.status is Status.ACCEPTED
            for single in pair.replaces
        }
        split = {branch.child for branch in branches}
        edges += [relationship_of_branch(branch, self.settings) for branch in branches]
        for pair in resolved.winners:
            if pair.child in split:
                continue
            check = checks[id(pair)]
            status = Status.REJECTED if id(pair) in implied else self._status(pair, check)
            reason = implied.get(id(pair)) or (NOT_CHECKED if self._is_late(pair) else None)
            edges.append(relationship_of_candidate(pair, status, check, reason, unique=pair.child in identifying))
        least = self.settings.review_threshold
        return edges + [
            relationship_of_candidate(pair, Status.REJECTED, sampled_check(pair), resolved.lost[id(pair)])
            for pair in pairs
            if id(pair) in resolved.lost and pair.probability >= least and pair.child not in split
        ]

    def _status(self, pair: Candidate, check: Check | None) -> Status:
        if self._is_late(pair):
            return Status.REVIEW
        status = status_of(pair.probability, check, self.settings, empty=pair.empty)
        # Any date is found in a calendar, and of a parent without rows the rows say nothing.
        doubtful = pair.only_orphans or (pair.child.family is Family.TIME and pair.key is not pair.key.table.likeliest)
        return Status.REVIEW if doubtful and status is Status.ACCEPTED else status

    def _is_late(self, pair: Candidate) -> bool:
        return (pair.child,) in self.questions.late


def _declared(facts: DatabaseFacts) -> set[ColumnFacts]:
    """Return the columns whose references the database declares."""
    return {
        table.column(name)
        for table in facts.tables
        for key in table.table.foreign_keys
        if len(key.columns) == 1
        for name in key.columns
    }


CLOSE = 0.12
"""Parents whose scores differ by less are told apart by which of them is nearest."""

SEEN = 0.4
"""From this probability on a key with rows comes before one without."""


@dataclass(slots=True)
class Resolved:
    """The one pair of each child, and why each other pair lost against it."""

    winners: list[Candidate]
    lost: dict[int, str] = field(default_factory=dict)


def resolve(pairs: Sequence[Candidate], threshold: float) -> Resolved:
    """Choose one parent for each column. `threshold`: the probability from which an edge can be part of a circle."""
    by_child: dict[ColumnFacts, list[Candidate]] = defaultdict(list)
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


def _rank(pair: Candidate) -> tuple[bool, float, float, float, int, int]:
    """Return what pairs of a column are compared by: a key whose rows hold the values comes before one without rows."""
    share = 0.0 if pair.overlap is None else pair.overlap.hits / max(1, pair.key.distinct)
    seen = not pair.only_orphans and pair.probability >= SEEN
    return (seen, round(pair.probability, 3), pair.named.best, share, -pair.key.table.number, -pair.key.position)


def _at_home(winner: Candidate, group: Sequence[Candidate]) -> Candidate:
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


def _nearest(winner: Candidate, group: Sequence[Candidate], best: Mapping[ColumnFacts, Candidate]) -> Candidate:
    """Return the parent nearest to the child among close ones: one that itself refers to the winner's key."""
    current = winner
    for _ in range(len(group)):
        nearer = [
            pair
            for pair in group
            if pair is not current
            and pair.probability >= winner.probability - CLOSE
            and _refers(pair.key, current.key, best)
            and not _refers(current.key, pair.key, best)
            and _violations(pair) <= _violations(current) + 0.001
            and _closeness(pair) >= _closeness(current)
        ]
        if not nearer:
            return current
        current = max(nearer, key=lambda pair: (_closeness(pair), _rank(pair)))
    return current


def _closeness(pair: Candidate) -> float:
    """Return how near a parent is to a child by their names and by how much of it the child covers.

    A child of a subtype speaks of it, or fills it; else the reference is meant for the table whose own key it is.
    """
    filled = pair.overlap is not None and pair.overlap.hits >= 0.995 * max(pair.key.table.rows, 1)
    return pair.named.best + 0.5 * context(pair.child, pair.key) + 0.5 * own_name(pair.key) + 0.4 * filled


def _refers(key: ColumnFacts, other: ColumnFacts, best: Mapping[ColumnFacts, Candidate]) -> bool:
    pair = best.get(key)
    return pair is not None and pair.key is other and pair.probability >= 0.5


def _violations(pair: Candidate) -> float:
    return 1.0 if pair.overlap is None else pair.overlap.violations


def _break_circles(resolved: Resolved, by_child: Mapping[ColumnFacts, Sequence[Candidate]], threshold: float) -> None:
    """Drop the weakest edge of every circle of keys that refer to one another: keys cannot all descend from another."""
    at = {pair.child: pair for pair in resolved.winners if pair.probability >= threshold and pair.child is not pair.key}
    for start in sorted(at, key=_place):
        while circle := _circle_from(start, at):
            weakest = min(circle, key=_rank)
            del at[weakest.child]
            resolved.winners.remove(weakest)
            resolved.lost[id(weakest)] = f"{named(weakest.key)} leads back to {named(weakest.child)}"
            _second_choice(resolved, by_child[weakest.child], at, threshold)


def _place(column: ColumnFacts) -> tuple[int, int]:
    return (column.table.number, column.position)


def _circle_from(start: ColumnFacts, at: Mapping[ColumnFacts, Candidate]) -> list[Candidate]:
    """Return the circle that following the edges from a column ends in; nothing where they end."""
    path: list[Candidate] = []
    column = start
    while column in at:
        seen = next((number for number, pair in enumerate(path) if pair.child is column), None)
        if seen is not None:
            return path[seen:]
        path.append(at[column])
        column = at[column].key
    return []


def _second_choice(
    resolved: Resolved, group: Sequence[Candidate], at: dict[ColumnFacts, Candidate], threshold: float
) -> None:
    """Give a column whose edge was dropped its next best one that leads into no circle."""
    rest = [pair for pair in group if not _leads_back(pair, at)]
    if not rest:
        return
    pair = max(rest, key=_rank)
    resolved.winners.append(pair)
    resolved.lost.pop(id(pair), None)
    if pair.probability >= threshold:
        at[pair.child] = pair


def _leads_back(pair: Candidate, at: Mapping[ColumnFacts, Candidate]) -> bool:
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


def sampled_check(pair: Candidate) -> Check | None:
    """Return what the samples say of a pair; None where there are no rows to tell by."""
    if pair.overlap is None or not pair.overlap.rows:
        return None
    return Check(pair.overlap.rows, pair.overlap.missing, pair.overlap.exact)


def status_of(probability: float, check: Check | None, settings: Relationships, *, empty: bool = False) -> Status:
    """Return the status of an edge that won its column: what no row shows is for a person to accept.

    `empty`: one of the two has no values, so that nothing speaks against the edge either; such an edge is not rejected.
    """
    if probability < settings.review_threshold:
        return Status.REVIEW if empty else Status.REJECTED
    if probability < settings.accept_threshold:
        return Status.REVIEW
    if check is None:
        return Status.REVIEW if settings.validation_required_for_manifest else Status.ACCEPTED
    return Status.ACCEPTED if check.violations <= MOST_VIOLATIONS else Status.REVIEW


def relationship_of_candidate(
    pair: Candidate, status: Status, check: Check | None, reason: str | None = None, *, unique: bool = False
) -> Relationship:
    """Return the relationship of one column; `unique`: whether its values are known not to repeat in all rows."""
    return replace(
        _between((pair.child,), (pair.key,), pair.probability, status, check, reason or reason_of(pair, check, status)),
        cardinality=Cardinality.ONE_TO_ONE if unique else _cardinality((pair.child,)),
        sources=tuple(sorted(pair.sources)),
    )


def relationship_of_composite(pair: CompositeCandidate, settings: Relationships, *, late: bool = False) -> Relationship:
    """Return the relationship of several columns; `late`: the time was up before its rows were looked at."""
    status = status_of(pair.probability, pair.check, settings)
    found = "the values could not be compared" if pair.check is None else found_of(pair.check)
    reason = NOT_CHECKED if late else f"{found}; the columns match the composite key"
    status = Status.REVIEW if late or pair.check is None else status
    made = _between(pair.child, pair.key, pair.probability, status, pair.check, reason)
    sources = tuple(sorted({"names", "values"} | pair.sources))
    return replace(made, cardinality=_cardinality(pair.child), sources=sources)


def relationship_of_branch(branch: Branch, settings: Relationships) -> Relationship:
    """Return the relationship of one value of a discriminator."""
    probability = branch_probability(branch.named)
    status = status_of(probability, branch.check, settings)
    relation = "names the table" if branch.named else "goes with this table alone"
    reason = f"{found_of(branch.check)}; {quoted(branch.discriminator.name)} {relation}"
    made = _between((branch.child,), (branch.key,), probability, status, branch.check, reason)
    return replace(made, sources=("values",), condition=(branch.discriminator.name, branch.value))


def _between(
    child: Sequence[ColumnFacts],
    key: Sequence[ColumnFacts],
    probability: float,
    status: Status,
    check: Check | None,
    reason: str,
) -> Relationship:
    own, others = (tuple(column.name for column in columns) for columns in (child, key))
    ends = (child[0].table.table.ref, own, key[0].table.table.ref, others)
    return Relationship(*ends, status, round(probability, 3), reason, check=check)


def with_sure_cardinality(edge: Relationship, child: TableFacts, choice: KeyChoice | None) -> Relationship:
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


def order(edge: Relationship) -> tuple[object, ...]:
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


def reason_of(pair: Candidate, check: Check | None, status: Status) -> str:
    """Return what speaks for and against an edge."""
    parts = [_values(pair, check), _name(pair)]
    if status is Status.REVIEW and pair.empty:
        parts.append("the rows cannot tell")
    return "; ".join(part for part in parts if part)


def named(column: ColumnFacts) -> str:
    """Return a column as edges name it: `orders.id`, in double quotes what is no plain word."""
    ref = column.table.table.ref
    parts = (ref.name, column.name) if ref.schema is None else (ref.schema, ref.name, column.name)
    return ".".join(map(quoted, parts))


def _values(pair: Candidate, check: Check | None) -> str:
    if check is None:
        return "no values to compare" if pair.empty else "the values could not be compared"
    found = found_of(check) + _but_blank(pair)
    return found if check.exact else f"{found} (sample)"


def _but_blank(pair: Candidate) -> str:
    """Return which value was taken for NULL, and how many rows have it: ` but 99999 (1,000 rows)`."""
    if pair.overlap is None or pair.overlap.blank is None:
        return ""
    blank, rows, sample = pair.overlap.blank, pair.overlap.blank_rows, pair.child.profile.filled
    value = f'"{blank.strip().lower()}"' if isinstance(blank, str) else f"{blank}"
    share = f"{rows * 1000 // sample / 10:g} % of the sample"
    many = f"{rows:,} {'row' if rows == 1 else 'rows'}" if pair.child.table.complete else share
    return f" but {value} ({many})"


def _name(pair: Candidate) -> str:
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
