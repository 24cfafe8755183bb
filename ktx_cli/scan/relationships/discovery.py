"""Infers the keys and relationships of a database: candidates, their probabilities, and what all rows say of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from ktx_cli.core import SourceError, monotonic, plural
from ktx_cli.project import Relationships
from ktx_cli.scan.profile.profiler import SampledTable
from ktx_cli.scan.relationships.candidates import (
    EXACT_ROWS,
    Prober,
    check_in_database,
    find_candidates,
    is_unique_in_database,
)
from ktx_cli.scan.relationships.columns import Family, NameIndex, gather
from ktx_cli.scan.relationships.composites import Branch, CompositeCandidate, find_branches, find_composites
from ktx_cli.scan.relationships.hints import Hints, HintSource, hints_of
from ktx_cli.scan.relationships.keys import Uniques, choose_keys, find_uniques, own_name
from ktx_cli.scan.relationships.ranker import Ranker, branch_probability, context, load_ranker, rate_candidates
from ktx_cli.scan.relationships.record import Cardinality, Check, Discovery, KeyChoice, Relationship, Status
from ktx_cli.scan.stages import STRICT, Failures, Stage
from ktx_cli.semantic import quoted
from ktx_cli.warehouses import Connector, Table, TableRef

if TYPE_CHECKING:
    from ktx_cli.scan.relationships.columns import Candidate, ColumnFacts, DatabaseFacts, TableFacts

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

    def check_candidates(self, candidates: Sequence[Candidate]) -> dict[int, Check | None]:
        """Return what all rows say of those that may be accepted, the likeliest first, else what samples say."""
        checks = {id(candidate): sampled_check(candidate) for candidate in candidates}
        self.late |= {(candidate.child,) for candidate in candidates if candidate.late}
        open_ones = [candidate for candidate in candidates if self._worth_checking(candidate, checks[id(candidate)])]
        open_ones.sort(key=lambda candidate: -candidate.probability)
        chosen = open_ones[: self._budget()]
        with ThreadPoolExecutor(self.settings.validation_concurrency, thread_name_prefix="ktx-check") as pool:
            checks.update(zip(map(id, chosen), pool.map(self._check_candidate, chosen), strict=True))
        return checks

    def _worth_checking(self, candidate: Candidate, sampled: Check | None) -> bool:
        if (
            candidate.empty
            or candidate.probability < self.settings.accept_threshold
            or (sampled is not None and sampled.exact)
        ):
            return False
        return _is_small_enough(candidate.child.table, candidate.key.table)

    def _check_candidate(self, candidate: Candidate) -> Check | None:
        blank = None if candidate.overlap is None else candidate.overlap.blank
        return self.check_rows([candidate.child], [candidate.key], blank)

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
    for review, with that reason. A statement that fails costs only its relationship. Raises `SourceError` when the
    database is gone. `failures`: takes what fails unexpectedly, as far as the rest does not need it; the strict default
    raises it.
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
        candidates = self.ranked_candidates(uniques, names, hints)
        resolved = resolve(candidates, self.settings.accept_threshold)
        checks = self.questions.check_candidates(resolved.winners)
        accepted = [
            candidate
            for candidate in resolved.winners
            if self._status(candidate, checks[id(candidate)]) is Status.ACCEPTED
        ]
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
        relationships = self._edges(candidates, resolved, checks, composites, branches, set(uniques.keys))
        by_ref = {table.table.ref: table for table in self.facts.tables}
        relationships = [
            with_sure_cardinality(relationship, by_ref[relationship.child], keys.get(by_ref[relationship.child]))
            for relationship in relationships
        ]
        return Discovery(
            keys={table.table.ref: choice for table, choice in keys.items()},
            edges=tuple(sorted(relationships, key=order)),
            queries=self.questions.queries,
            problems=self.questions.all_problems(),
        )

    def ranked_candidates(self, uniques: Uniques, names: NameIndex, hints: Hints) -> list[Candidate]:
        """Return the candidates worth a look, with their scores."""
        questions = self.questions
        prober = Prober(questions.connector, lambda: questions.is_over)
        most = self.settings.max_candidates_per_column
        candidates = find_candidates(
            self.facts, uniques.keys, names, hints.single, prober, most=most, spoken_for=_declared(self.facts)
        )
        rate_candidates(self.ranker, self.facts.columns, candidates)
        questions.queries += prober.statements
        questions.problems += prober.problems
        return candidates

    def _edges(
        self,
        candidates: Sequence[Candidate],
        resolved: Resolved,
        checks: Mapping[int, Check | None],
        composites: Sequence[CompositeCandidate],
        branches: Sequence[Branch],
        identifying: Set[ColumnFacts],
    ) -> list[Relationship]:
        relationships = [
            relationship_of_composite(candidate, self.settings, late=candidate.child in self.questions.late)
            for candidate in composites
        ]
        implied = {
            id(single): f"reached through {quoted(candidate.key[0].table.table.ref.name)}"
            for candidate, relationship in zip(composites, relationships, strict=True)
            if relationship.status is Status.ACCEPTED
            for single in candidate.replaces
        }
        split = {branch.child for branch in branches}
        relationships += [relationship_of_branch(branch, self.settings) for branch in branches]
        for candidate in resolved.winners:
            if candidate.child in split:
                continue
            check = checks[id(candidate)]
            status = Status.REJECTED if id(candidate) in implied else self._status(candidate, check)
            reason = implied.get(id(candidate)) or (NOT_CHECKED if self._is_late(candidate) else None)
            relationships.append(
                relationship_of_candidate(candidate, status, check, reason, unique=candidate.child in identifying)
            )
        least = self.settings.review_threshold
        return relationships + [
            relationship_of_candidate(
                candidate, Status.REJECTED, sampled_check(candidate), resolved.lost[id(candidate)]
            )
            for candidate in candidates
            if id(candidate) in resolved.lost and candidate.probability >= least and candidate.child not in split
        ]

    def _status(self, candidate: Candidate, check: Check | None) -> Status:
        if self._is_late(candidate):
            return Status.REVIEW
        status = status_of(candidate.probability, check, self.settings, empty=candidate.empty)
        # Any date is found in a calendar, and of a parent without rows the rows say nothing.
        doubtful = candidate.only_orphans or (
            candidate.child.family is Family.TIME and candidate.key is not candidate.key.table.likeliest
        )
        return Status.REVIEW if doubtful and status is Status.ACCEPTED else status

    def _is_late(self, candidate: Candidate) -> bool:
        return (candidate.child,) in self.questions.late


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
    """The one candidate of each child, and why each other candidate lost against it."""

    winners: list[Candidate]
    lost: dict[int, str] = field(default_factory=dict)


def resolve(candidates: Sequence[Candidate], threshold: float) -> Resolved:
    """Choose one parent for each column. `threshold`: from this probability on it can be part of a circle."""
    by_child: dict[ColumnFacts, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_child[candidate.child].append(candidate)
    best = {child: _at_home(max(group, key=_rank), group) for child, group in by_child.items()}
    resolved = Resolved([])
    for child, group in by_child.items():
        winner = _nearest(best[child], group, best)
        resolved.winners.append(winner)
        for candidate in group:
            if candidate is not winner:
                resolved.lost[id(candidate)] = f"{quoted(child.name)} fits {named(winner.key)} better"
    _break_circles(resolved, by_child, threshold)
    return resolved


def _rank(candidate: Candidate) -> tuple[bool, float, float, float, int, int]:
    """Return what candidates of a column are compared by: a key whose rows hold the values comes first."""
    share = 0.0 if candidate.overlap is None else candidate.overlap.hits / max(1, candidate.key.distinct)
    seen = not candidate.only_orphans and candidate.probability >= SEEN
    return (
        seen,
        round(candidate.probability, 3),
        candidate.named.best,
        share,
        -candidate.key.table.number,
        -candidate.key.position,
    )


def _at_home(winner: Candidate, group: Sequence[Candidate]) -> Candidate:
    """Return the winner's namesake in the child's own schema, where there is one that holds the values as well."""
    schema = winner.child.table.table.ref.schema
    namesakes = [
        candidate
        for candidate in group
        if candidate.key.table.table.ref == TableRef(schema, winner.key.table.table.ref.name)
        and candidate.key.name == winner.key.name
        and _violations(candidate) <= _violations(winner) + 0.001
    ]
    return namesakes[0] if namesakes else winner


def _nearest(winner: Candidate, group: Sequence[Candidate], best: Mapping[ColumnFacts, Candidate]) -> Candidate:
    """Return the parent nearest to the child among close ones: one that itself refers to the winner's key."""
    current = winner
    for _ in range(len(group)):
        nearer = [
            candidate
            for candidate in group
            if candidate is not current
            and candidate.probability >= winner.probability - CLOSE
            and _refers(candidate.key, current.key, best)
            and not _refers(current.key, candidate.key, best)
            and _violations(candidate) <= _violations(current) + 0.001
            and _closeness(candidate) >= _closeness(current)
        ]
        if not nearer:
            return current
        current = max(nearer, key=lambda candidate: (_closeness(candidate), _rank(candidate)))
    return current


def _closeness(candidate: Candidate) -> float:
    """Return how near a parent is to a child by their names and by how much of it the child covers.

    A child of a subtype speaks of it, or fills it; else the reference is meant for the table whose own key it is.
    """
    filled = candidate.overlap is not None and candidate.overlap.hits >= 0.995 * max(candidate.key.table.rows, 1)
    return (
        candidate.named.best
        + 0.5 * context(candidate.child, candidate.key)
        + 0.5 * own_name(candidate.key)
        + 0.4 * filled
    )


def _refers(key: ColumnFacts, other: ColumnFacts, best: Mapping[ColumnFacts, Candidate]) -> bool:
    candidate = best.get(key)
    return candidate is not None and candidate.key is other and candidate.probability >= 0.5


def _violations(candidate: Candidate) -> float:
    return 1.0 if candidate.overlap is None else candidate.overlap.violations


def _break_circles(resolved: Resolved, by_child: Mapping[ColumnFacts, Sequence[Candidate]], threshold: float) -> None:
    """Drop the weakest of every circle of keys that refer to one another: keys cannot all descend from another."""
    at = {
        candidate.child: candidate
        for candidate in resolved.winners
        if candidate.probability >= threshold and candidate.child is not candidate.key
    }
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
    """Return the circle that following the relationships from a column ends in; nothing where they end."""
    path: list[Candidate] = []
    column = start
    while column in at:
        seen = next((number for number, candidate in enumerate(path) if candidate.child is column), None)
        if seen is not None:
            return path[seen:]
        path.append(at[column])
        column = at[column].key
    return []


def _second_choice(
    resolved: Resolved, group: Sequence[Candidate], at: dict[ColumnFacts, Candidate], threshold: float
) -> None:
    """Give a column whose relationship was dropped its next best one that leads into no circle."""
    rest = [candidate for candidate in group if not _leads_back(candidate, at)]
    if not rest:
        return
    candidate = max(rest, key=_rank)
    resolved.winners.append(candidate)
    resolved.lost.pop(id(candidate), None)
    if candidate.probability >= threshold:
        at[candidate.child] = candidate


def _leads_back(candidate: Candidate, at: Mapping[ColumnFacts, Candidate]) -> bool:
    column = candidate.key
    for _ in range(len(at) + 1):
        if column is candidate.child:
            return True
        if column not in at:
            return False
        column = at[column].key
    return False


MOST_VIOLATIONS = 0.08
"""Edges of which a larger share of rows finds nothing are for a person to judge."""

NOT_CHECKED = "not checked: time budget"
"""The reason of a relationship whose rows were not looked at any more."""

SURE_ROWS = 30
"""From so many rows on, a column in which nothing repeats is taken for one in which nothing can."""


def sampled_check(candidate: Candidate) -> Check | None:
    """Return what the samples say of a candidate; None where there are no rows to tell by."""
    if candidate.overlap is None or not candidate.overlap.rows:
        return None
    return Check(candidate.overlap.rows, candidate.overlap.missing, candidate.overlap.exact)


def status_of(probability: float, check: Check | None, settings: Relationships, *, empty: bool = False) -> Status:
    """Return the status of a relationship that won its column: what no row shows is for a person to accept.

    `empty`: one of the two has no values, so that nothing speaks against it either; then it is not rejected.
    """
    if probability < settings.review_threshold:
        return Status.REVIEW if empty else Status.REJECTED
    if probability < settings.accept_threshold:
        return Status.REVIEW
    if check is None:
        return Status.REVIEW if settings.validation_required_for_manifest else Status.ACCEPTED
    return Status.ACCEPTED if check.violations <= MOST_VIOLATIONS else Status.REVIEW


def relationship_of_candidate(
    candidate: Candidate, status: Status, check: Check | None, reason: str | None = None, *, unique: bool = False
) -> Relationship:
    """Return the relationship of one column; `unique`: whether its values are known not to repeat in all rows."""
    return replace(
        _between(
            (candidate.child,),
            (candidate.key,),
            candidate.probability,
            status,
            check,
            reason or reason_of(candidate, check, status),
        ),
        cardinality=Cardinality.ONE_TO_ONE if unique else _cardinality((candidate.child,)),
        sources=tuple(sorted(candidate.sources)),
    )


def relationship_of_composite(
    candidate: CompositeCandidate, settings: Relationships, *, late: bool = False
) -> Relationship:
    """Return the relationship of several columns; `late`: the time was up before its rows were looked at."""
    status = status_of(candidate.probability, candidate.check, settings)
    found = "the values could not be compared" if candidate.check is None else found_of(candidate.check)
    reason = NOT_CHECKED if late else f"{found}; the columns match the composite key"
    status = Status.REVIEW if late or candidate.check is None else status
    made = _between(candidate.child, candidate.key, candidate.probability, status, candidate.check, reason)
    sources = tuple(sorted({"names", "values"} | candidate.sources))
    return replace(made, cardinality=_cardinality(candidate.child), sources=sources)


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


def with_sure_cardinality(relationship: Relationship, child: TableFacts, choice: KeyChoice | None) -> Relationship:
    """Return the relationship, one-to-one only where that is no accident of the rows.

    A key of its own makes it so, declared or chosen; else enough rows without a repetition, unless the columns are part
    of a key: a table between two others repeats either of them sooner or later.
    """
    if relationship.cardinality is not Cardinality.ONE_TO_ONE:
        return relationship
    columns = set(relationship.child_columns)
    primary = set(child.table.primary_key or (choice.primary if choice is not None else ()))
    declared = any(set(key.columns) <= columns for key in child.table.unique_keys)
    if columns == primary or declared or (child.rows >= SURE_ROWS and not columns & primary):
        return relationship
    return replace(relationship, cardinality=Cardinality.MANY_TO_ONE)


def order(relationship: Relationship) -> tuple[object, ...]:
    """Return what relationships are sorted by: their tables and columns."""
    child, parent = relationship.child, relationship.parent
    return (
        child.schema or "",
        child.name,
        relationship.child_columns,
        parent.schema or "",
        parent.name,
        relationship.parent_columns,
        str(relationship.condition),
    )


def _cardinality(columns: tuple[ColumnFacts, ...]) -> Cardinality:
    table = columns[0].table
    if not table.complete:
        return Cardinality.MANY_TO_ONE
    values = [table.sampled.values[column.name] for column in columns]
    rows = [row for row in zip(*values, strict=True) if None not in row]
    return Cardinality.ONE_TO_ONE if len(rows) > 1 and len(set(rows)) == len(rows) else Cardinality.MANY_TO_ONE


def reason_of(candidate: Candidate, check: Check | None, status: Status) -> str:
    """Return what speaks for and against a relationship."""
    parts = [_values(candidate, check), _name(candidate)]
    if status is Status.REVIEW and candidate.empty:
        parts.append("the rows cannot tell")
    return "; ".join(part for part in parts if part)


def named(column: ColumnFacts) -> str:
    """Return a column as relationships name it: `orders.id`, in double quotes what is no plain word."""
    ref = column.table.table.ref
    parts = (ref.name, column.name) if ref.schema is None else (ref.schema, ref.name, column.name)
    return ".".join(map(quoted, parts))


def _values(candidate: Candidate, check: Check | None) -> str:
    if check is None:
        return "no values to compare" if candidate.empty else "the values could not be compared"
    found = found_of(check) + _but_blank(candidate)
    return found if check.exact else f"{found} (sample)"


def _but_blank(candidate: Candidate) -> str:
    """Return which value was taken for NULL, and how many rows have it: ` but 99999 (1,000 rows)`."""
    if candidate.overlap is None or candidate.overlap.blank is None:
        return ""
    blank, rows, sample = candidate.overlap.blank, candidate.overlap.blank_rows, candidate.child.profile.filled
    value = f'"{blank.strip().lower()}"' if isinstance(blank, str) else f"{blank}"
    share = f"{rows * 1000 // sample / 10:g} % of the sample"
    many = f"{rows:,} {'row' if rows == 1 else 'rows'}" if candidate.child.table.complete else share
    return f" but {value} ({many})"


def _name(candidate: Candidate) -> str:
    if candidate.named.key >= 0.85:
        return "named as the key is"
    if candidate.named.table >= 0.75:
        return "named after the table"
    if candidate.named.best >= 0.4:
        return "the name is near"
    return "the name may mean the table" if candidate.named.meaning else "the name says nothing"


def found_of(check: Check) -> str:
    """Return how many rows find their parent."""
    return "every value is found" if not check.missing else f"{_share(check)} of rows are found"


def _share(check: Check) -> str:
    """Return the share that is found as per cent, never rounded up to all of it: `99.9 %`."""
    return f"{(check.rows - check.missing) * 1000 // check.rows / 10:g} %"
