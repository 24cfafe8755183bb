"""Explain a recorded relationship: the evidence in sentences, the other keys, and what would change the decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Record, listing, one_line, plural
from ktx_cli.scan.relationships.columns import Family
from ktx_cli.scan.relationships.discovery import FEW_VALUES
from ktx_cli.scan.relationships.evidence import (
    COLUMNS,
    KEYS,
    NAMES,
    NO_HINTS,
    SMALL_EFFECT,
    VALUES,
    Precision,
    Scorer,
    Step,
)
from ktx_cli.scan.relationships.hints import HINT_TEXTS, HintText
from ktx_cli.scan.relationships.names import alike, tokens, words
from ktx_cli.scan.relationships.ranker import (
    FEATURES,
    FIT_TOLERANCE,
    HINT_WEIGHTS,
    NEIGHBOUR_FEATURES,
    branch_probability,
    load_ranker,
)
from ktx_cli.scan.relationships.record import (
    DOUBT_TEXTS,
    LEAST_PROBABILITY,
    MAX_VIOLATIONS,
    RULE_TEXTS,
    VAGUE,
    Check,
    Status,
    column_name,
    status_of,
)
from ktx_cli.scan.relationships.verdict import doubts_of, emptiness, loss_clause, share, winner_over
from ktx_cli.semantic import quoted

if TYPE_CHECKING:
    from ktx_cli.scan.profile.profiler import ColumnProfile, TableProfile
    from ktx_cli.scan.relationships.evidence import CandidateEvidence, ChildEvidence, Outcome, Thresholds
    from ktx_cli.scan.relationships.record import Relationship
    from ktx_cli.warehouses import TableRef


class Bearing(StrEnum):
    """Whether a statement supports a relationship."""

    FOR = "for"
    AGAINST = "against"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True)
class Statement(Record):
    """One piece of evidence. `topic`: `name`, `values`, `key`, `columns` (other columns), `hint` or `score`."""

    topic: str
    bearing: Bearing
    text: str


_WORDS: Final[Mapping[str, str]] = {
    "measure": "amounts and counts",
    "flag": "flags",
    "time": "dates and times",
    "text": "texts",
}
"""The kinds of words that speak against a reference, and what they mean."""

NARROW_SPAN: Final = 0.1
"""The share of a key's range up to which the values of a column are narrow."""

MOST_RUNNERS_UP: Final = 3
FEW_ROWS: Final = 10
"""With fewer rows, a match proves little."""

CLEAR_DIFFERENCE: Final = 0.15
"""By how much the names of two candidates have to differ for one to be called better."""


def shown_value(value: Any) -> str:
    """Return a value as text between backquotes."""
    return f"`{one_line(str(value), 40)}`"


@dataclass(frozen=True, slots=True)
class Subject:
    """A relationship to explain, with the evidence about it.

    `known`: the relationships of the connection that are joins. `profiles`: of the tables at both ends, with the values
    that may be shown.
    """

    relationship: Relationship
    child: ChildEvidence
    evidence: CandidateEvidence
    known: Sequence[Relationship] = ()
    profiles: Mapping[TableRef, TableProfile] = field(default_factory=dict)

    @property
    def parent(self) -> str:
        """The key, with its table."""
        return column_name(self.evidence.parent, self.evidence.parent_columns)

    def feature(self, name: str) -> float:
        """Return a feature of the ranker by its name; 0 if the second pass skipped the candidate."""
        if name in FEATURES:
            return self.evidence.features[FEATURES.index(name)]
        neighbours = self.evidence.neighbours
        return neighbours[NEIGHBOUR_FEATURES.index(name)] if neighbours else 0.0

    def profile(self, ref: TableRef, column: str) -> ColumnProfile | None:
        """Return the profile of a column, if it is stored."""
        table = self.profiles.get(ref)
        return next((each for each in table.columns if each.name == column), None) if table else None


def statements(subject: Subject) -> tuple[Statement, ...]:
    """Return the evidence of a relationship in sentences."""
    if subject.evidence.features:
        topics: Sequence[Callable[[Subject], Iterator[Statement]]] = (
            _names,
            _key,
            _matches,
            _spread,
            _columns,
            _hints,
            _of_view,
        )
    else:
        of_one = _of_branch if subject.evidence.shared_with is None else _of_part
        of_columns = _of_composite if len(subject.evidence.parent_columns) > 1 else of_one
        topics = (of_columns, _hints)
    return tuple(statement for topic in topics for statement in topic(subject))


def _names(subject: Subject) -> Iterator[Statement]:
    column = subject.child.columns[0]
    text, named = name_text(column, subject.evidence)
    yield Statement("name", Bearing.FOR if named else Bearing.AGAINST, text)
    best = subject.evidence.name_match.best
    others = [each for each in subject.child.candidates if each.name_match.best >= best + CLEAR_DIFFERENCE]
    if others:
        better = max(others, key=lambda each: each.name_match.best)
        fits = column_name(better.parent, better.parent_columns)
        yield Statement("name", Bearing.AGAINST, f"The name fits another candidate better: `{fits}`.")
    if subject.feature("self_reference"):
        usual = subject.feature("self_word")
        text = "This name is common for a reference to another row of the same table."
        text = text if usual else "The key is in the column's own table."
        yield Statement("name", Bearing.FOR if usual else Bearing.AGAINST, text)
    for kind, meaning in _WORDS.items():
        found = sorted(words(kind) & set(tokens(column)) - set(tokens(subject.evidence.parent_columns[0])))
        if found and subject.evidence.name_match.key < 0.85 and not _names_dates(subject.evidence):
            text = f"The word `{found[0]}` in the name is common for {meaning}, but rare for references."
            yield Statement("name", Bearing.AGAINST, text)


def _names_dates(evidence: CandidateEvidence) -> bool:
    """Return whether a key is one of dates by its name, so that `month` may refer to it."""
    names = (evidence.parent.name, *evidence.parent_columns)
    return any(not words("time").isdisjoint(tokens(name)) for name in names)


def name_text(column: str, evidence: CandidateEvidence) -> tuple[str, bool]:
    """Return what the name of a column says about a key, and whether that is in its favour."""
    match, table, key = evidence.name_match, quoted(evidence.parent.name), evidence.parent_columns[0]
    if match.key >= 0.85:
        same = column.casefold() == key.casefold()
        return ("The column has the same name as the key." if same else f"The name matches the key `{key}`."), True
    if match.table >= 0.75:
        return _table_text(column, evidence.parent.name), True
    if match.best >= 0.4:
        near = f"the key `{key}`" if match.key > match.table else f"the table `{table}`"
        return f"The name `{column}` is similar to {near}.", True
    if match.meaning:
        named = "_".join(each for each in tokens(column) if each not in words("key")) or column
        return f"`{named}` may be another word for `{table}`.", True
    return f"The name `{column}` gives no indication of `{table}`.", False


def _table_text(column: str, table: str) -> str:
    """Return that a column's name matches a table, or which of the table's words it has."""
    own, parts = tokens(column), [each for each in dict.fromkeys(tokens(table)) if each not in words("layer")]
    shared = [each for each in parts if any(alike(each, word) >= 0.8 for word in own)]
    if not shared or len(shared) == len(parts):
        return f"The name `{column}` matches the table `{quoted(table)}`."
    listed, is_one = listing(f"`{each}`" for each in shared), len(shared) == 1
    found = f"The word {listed} of the name also occurs" if is_one else f"The words {listed} of the name also occur"
    return f"{found} in the table name `{quoted(table)}`."


def _matches(subject: Subject) -> Iterator[Statement]:
    evidence, check, values = subject.evidence, subject.evidence.check, subject.evidence.values
    if evidence.empty:
        yield Statement("values", Bearing.NEUTRAL, _empty_text(subject))
        return
    if check is None or not check.rows:
        yield Statement("values", Bearing.NEUTRAL, "The values could not be compared.")
        return
    yield _match_statement(subject, check)
    if check.rows < FEW_ROWS:
        rows = plural(check.rows, "row")
        yield Statement(
            "values",
            Bearing.AGAINST,
            f"Only {rows} {'has' if check.rows == 1 else 'have'} a value, which proves little.",
        )
    if evidence.orphans:
        shown = [f"{shown_value(value)} ({plural(rows, 'row')})" for value, rows in evidence.orphans]
        lost = 0 if values is None or subject.evidence.looked_up_some(subject.child) else values.distinct - values.hits
        examples = listing(shown, len(shown)) if lost <= len(shown) else _with_more(shown, lost - len(shown))
        sampled = "" if subject.child.complete else " in the sample"
        yield Statement("values", Bearing.NEUTRAL, f"Values without a match{sampled}: {examples}.")
    elif evidence.key_complete and values is not None and values.hits < values.distinct:
        yield Statement("values", Bearing.NEUTRAL, "The values without a match are not shown, for privacy.")
    if values is not None and values.sentinel is not None:
        rows = plural(values.sentinel_rows, "row") + ("" if subject.child.complete else " of the sample")
        text = f"{shown_value(values.sentinel)} is treated as a placeholder for a missing value ({rows}), because "
        text += "it is a common one, and the only one among the values without a match."
        yield Statement("values", Bearing.NEUTRAL, text)
    nulls, rows_read = subject.child.nulls, subject.child.rows
    if nulls:
        among = "rows" if subject.child.complete else f"{rows_read:,} sampled rows"
        yield Statement("values", Bearing.NEUTRAL, f"{share(nulls, rows_read)} of the {among} have no value.")


def _with_more(shown: Sequence[str], more: int) -> str:
    return f"{', '.join(shown)} and {plural(more, 'more value')}"


def _empty_text(subject: Subject) -> str:
    child, evidence = subject.child, subject.evidence
    if child.distinct:
        return f"{emptiness(child, evidence)}, so no row has a match yet."
    if not child.rows:
        return f"{emptiness(child, evidence)}, so no row can confirm or contradict the join."
    profile = subject.profile(child.child, child.columns[0])
    how = "NULL" if profile is not None and profile.nulls >= profile.rows else "empty (NULL or '')"
    rows = plural(child.rows, "row") if child.complete else f"{child.rows:,} sampled rows"
    return f"The column is {how} in all {rows}, so no row can confirm or contradict the join."


def _match_statement(subject: Subject, check: Check, where: str = "") -> Statement:
    values = subject.evidence.values
    if not check.exact and not check.compared and values is not None and subject.evidence.looked_up_some(subject.child):
        found = "all of them" if values.hits == values.distinct else f"{values.hits:,} of them"
        distinct = subject.evidence.distinct_of(subject.child)
        text = f"ktx looked up {values.distinct:,} of the {distinct:,} distinct values, and {found} exist in "
        text += f"`{subject.parent}`. It did not compare the others."
        return Statement("values", Bearing.FOR if check.violations <= FIT_TOLERANCE else Bearing.AGAINST, text)
    scope = "all rows were checked" if check.exact else "only a sample was checked"
    if check.compared:
        return _sketch_statement(subject, check)
    if not check.missing:
        rows = "The only row" if check.rows == 1 else f"All {check.rows:,} rows"
        verb = "has" if check.rows == 1 else "have"
        text = f"{rows} with a value{where} {verb} a match in `{subject.parent}` ({scope})."
        return Statement("values", Bearing.FOR, text)
    part = share(check.missing, check.rows)
    verb = "has" if check.missing == 1 else "have"
    known = values is not None and (values.rows, values.missing) == (check.rows, check.missing)
    lost = values.distinct - values.hits if values is not None and known else 0
    different = f", with {'one value' if lost == 1 else f'{lost:,} distinct values'}," if lost else ""
    text = f"{check.missing:,} of {check.rows:,} rows{where} ({part}){different} {verb} no match in `{subject.parent}`"
    text += f" ({scope})."
    bearing = Bearing.AGAINST if check.violations > FIT_TOLERANCE else Bearing.NEUTRAL
    return Statement("values", bearing, text)


def _sketch_statement(subject: Subject, check: Check) -> Statement:
    """Return what the sketches of two columns say, with how far their estimate may be off."""
    counts_rows = check.compared != check.rows
    found = f"{share(check.missing, check.rows)} of their rows have no match in"
    if not check.missing:
        found = "all of them exist in"
    elif not counts_rows:
        found = f"{check.missing:,} of them do not exist in"
    text = f"The tables are too large to join, so ktx compared the hashes of {check.compared:,} random values: {found} "
    text += f"`{subject.parent}`."
    if check.at_most is not None:
        every = "rows" if counts_rows else "distinct values"
        text += f" With 99% confidence, at most {share(check.at_most, 1)} of all {every} have no match."
    bearing = Bearing.AGAINST if check.violations > FIT_TOLERANCE else Bearing.NEUTRAL if check.missing else Bearing.FOR
    return Statement("values", bearing, text)


def _spread(subject: Subject) -> Iterator[Statement]:
    """Yield how the values lie among the keys, and how likely they are to match by chance."""
    evidence, child = subject.evidence, subject.child
    if evidence.empty or evidence.values is None:
        return
    few, count = child.distinct <= FEW_VALUES, subject.evidence.distinct_of(subject.child)
    text = f"{'only ' if few else ''}{plural(count, 'distinct value')}{_range(subject)}"
    text = f"The column has {text}" if child.complete else f"In {child.rows:,} sampled rows, the column has {text}"
    yield Statement("values", Bearing.AGAINST if few else Bearing.NEUTRAL, text)
    narrow = _spans_range(subject) and child.distinct >= FEW_ROWS and subject.feature("span") <= NARROW_SPAN
    if narrow:
        text = "The values lie in a small part of the key range, while references usually spread over all of it."
        yield Statement("values", Bearing.AGAINST, text)
    if subject.feature("child_unique") and child.distinct > 1:
        where = "" if child.complete else " in the sample"
        text = f"Every value occurs once{where}, so each key matches at most one row."
        yield Statement("values", Bearing.NEUTRAL, text)
    chance, number = subject.feature("chance"), not subject.feature("parent_text")
    if number and subject.feature("parent_dense") and _is_number(subject) and evidence.key_distinct > 1:
        how = "consecutive" if evidence.consecutive else "nearly consecutive"
        how = how if evidence.consecutive or evidence.key_complete else "consecutive or nearly consecutive"
        text = f"The keys are {how} numbers, so any number in that range would match."
        yield Statement("values", Bearing.NEUTRAL, text)
        if subject.feature("low_skew") > 0.5:
            text = "The values crowd at the low end of the keys, as counts and ranks do."
            yield Statement("values", Bearing.AGAINST, text)
    elif chance >= 3 and (subject.feature("span") > NARROW_SPAN or not number):
        # The odds are those of a full match by numbers from anywhere in the range of the key.
        whole = not evidence.values.missing and evidence.values.sentinel is None
        text = f"A chance match is unlikely (less than 1 in {_odds(chance)})."
        yield Statement("values", Bearing.FOR, text if whole else "So many matches are unlikely by chance.")
    yield _rivals(subject)
    if evidence.types:
        text = "The column and the key have different types: {} and {}.".format(*map(shown_value, evidence.types))
        yield Statement("values", Bearing.AGAINST, text)


def _matching_keys(subject: Subject) -> tuple[list[str], int]:
    """Return the other candidates of the column that contain its values, and the number of all such keys."""
    evidence = subject.evidence
    fits = [each for each in subject.child.candidates if each.check and each.check.violations <= FIT_TOLERANCE]
    others = [each for each in fits if each is not evidence and each.values is not None]
    names = [f"`{column_name(each.parent, each.parent_columns)}`" for each in others]
    own = any(each is evidence for each in fits)
    return names, max(len(names), round(2 ** subject.feature("rivals")) - 1 - own)


def _rivals(subject: Subject) -> Statement:
    """Return which other keys contain the values, whatever the other columns with this name contain."""
    names, count = _matching_keys(subject)
    if not count:
        return Statement("values", Bearing.FOR, "The values match no other candidate key.")
    text = f"The values also match at least {plural(count, 'other key')}{_named_of(names, count)}."
    if subject.evidence.rivals:
        return Statement("values", Bearing.AGAINST, text)
    # A name that many tables have: the ranker only counts keys that contain as many of the columns with the name.
    text += f" {'It contains' if count == 1 else 'They contain'} the values of fewer columns with this name."
    return Statement("values", Bearing.NEUTRAL, text)


def _named_of(names: Sequence[str], count: int) -> str:
    """Return which other keys contain the values; those that are not candidates by their names are only counted."""
    more = count - len(names)
    if more <= 0:
        return f": {listing(names, 3)}"
    unlike = "whose name does not match" if more == 1 else "whose names do not match"
    return f": {listing(names, 3)}, and {more} {unlike}" if names else f", {unlike}"


def _is_number(subject: Subject) -> bool:
    profile = subject.profile(subject.evidence.parent, subject.evidence.parent_columns[0])
    return profile is None or profile.kind.value == Family.INTEGER.value


def _range(subject: Subject) -> str:
    """Return the size of the key, and the smallest and largest values of both columns if they may be shown."""
    evidence, key = subject.evidence, subject.evidence.parent_columns[0]
    own, other = subject.profile(subject.child.child, subject.child.columns[0]), subject.profile(evidence.parent, key)
    covered = _covered(subject)
    if own is None or other is None or None in (own.minimum, own.maximum, other.minimum, other.maximum):
        return f"{covered}."
    ranges = (f"from {shown_value(each.minimum)} to {shown_value(each.maximum)}" for each in (own, other))
    return "{}. Values range {}, keys {}.".format(covered, *ranges)


def _covered(subject: Subject) -> str:
    """Return how many of the keys the values match, as far as the rows that were read tell."""
    evidence, values, profile = subject.evidence, subject.evidence.values, subject.profiles.get(subject.evidence.parent)
    coverage = evidence.coverage(subject.child, counted=profile is not None and profile.exact_count)
    if coverage is None or values is None:
        return "; there is only 1 key" if evidence.keys <= 1 else f"; the key has {evidence.keys:,}"
    who = "It" if evidence.distinct_of(subject.child) == 1 else "They"
    if values.hits < values.distinct and coverage.precision is not Precision.ESTIMATE:
        who = f"{values.hits:,} of them"
    verb = "matches" if values.hits == 1 else "match"
    about = "about " if coverage.precision is Precision.ESTIMATE else ""
    text = f". {who} {verb} {about}{share(coverage.hits, coverage.keys)} of the {coverage.keys:,} keys"
    if _spans_range(subject):
        about = "" if evidence.key_complete else "about "
        text += f" and span {about}{share(min(1.0, subject.feature('span')), 1)} of the key range"
    return text if subject.child.complete or coverage.hits >= coverage.keys else f"{text}; all rows may match more"


def _spans_range(subject: Subject) -> bool:
    """Return whether it is known which part of the range of a numeric key the values span."""
    values = subject.evidence.values
    whole = values is not None and not values.missing and values.sentinel is None
    return whole and subject.child.distinct > 1 and not subject.feature("parent_text") and _is_number(subject)


def _odds(chance: float) -> str:
    exponent = min(9, int(chance))
    return {9: "a billion", 6: "a million"}.get(exponent) or f"{10**exponent:,}"


def _key(subject: Subject) -> Iterator[Statement]:
    evidence = subject.evidence
    key = f"`{quoted(evidence.parent_columns[0])}`"
    table = f"`{quoted(evidence.parent.name)}`"
    further = _reference_of_key(subject)
    same = further is not None and further.parent_columns == evidence.parent_columns
    if further is not None:
        text = f"{key} of {table} is itself a reference, to `{column_name(further.parent, further.parent_columns)}`."
        yield Statement("key", Bearing.NEUTRAL, text)
    if subject.feature("owner") >= 0.9 and not same:
        yield Statement("key", Bearing.FOR, f"{key} looks like the key of {table}, by its name.")
    if subject.feature("owner") < 0.5:
        yield Statement("key", Bearing.AGAINST, f"{key} does not look like the key of {table}.")
    if evidence.key_group:
        others = f"one of the {len(evidence.key_group)} columns of the primary key of {table}"
        yield Statement("key", Bearing.AGAINST, f"{key} is only {others}, so a value may occur in several of its rows.")
    is_own, is_primary = subject.feature("child_own_name") >= 0.75, subject.child.is_primary_key
    if is_own or is_primary:
        text = f"The column {'is the primary key' if is_primary else 'looks like the key'} of its own table, "
        text += f"`{quoted(subject.child.child.name)}`."
        yield Statement("key", Bearing.AGAINST if is_own else Bearing.NEUTRAL, text)


def _reference_of_key(subject: Subject) -> Relationship | None:
    """Return the join by which the key itself refers to another key."""
    key = (subject.evidence.parent, subject.evidence.parent_columns)
    return next((each for each in subject.known if (each.child, each.child_columns) == key), None)


def _of_view(subject: Subject) -> Iterator[Statement]:
    if subject.child.is_view:
        text = f"`{quoted(subject.child.child.name)}` is a view. If it already joins the referenced table, a "
        text += "full match proves little. For views, ktx saves only accepted joins."
        yield Statement("columns", Bearing.NEUTRAL, text)


def _columns(subject: Subject) -> Iterator[Statement]:
    """Yield what other columns of the database say: those with the same name, and those that refer to the key."""
    found, column = subject.relationship, subject.child.columns[0]
    own = (found.child, found.child_columns)
    joins = [each for each in subject.known if (each.child, each.child_columns) != own]
    named = [e for e in joins if len(e.child_columns) == 1 and e.child_columns[0].casefold() == column.casefold()]
    to = (found.parent, found.parent_columns)
    alike = [each for each in named if (each.parent, each.parent_columns) == to]
    back = [each for each in named if (each.parent, each.parent_columns) == own]
    elsewhere = [each for each in named if each not in alike and each not in back]
    if back:
        verb, its = ("references", "its") if len(back) == 1 else ("reference", "their")
        text = f"{plural(len(back), 'other column')} with this name {verb} this column as {its} key: "
        text += f"{listing((f'`{column_name(each.child, each.child_columns)}`' for each in back), 3)}."
        yield Statement("columns", Bearing.AGAINST, text)
    if alike:
        shown = listing((f"`{column_name(each.child, each.child_columns)}`" for each in alike), 3)
        others = plural(len(alike), "other column")
        verb = "refers" if len(alike) == 1 else "refer"
        text = f"{others} with this name {verb} to the same key: {shown}."
        yield Statement("columns", Bearing.FOR, text)
    if elsewhere:
        keys = dict.fromkeys(f"`{column_name(each.parent, each.parent_columns)}`" for each in elsewhere)
        verb = "refers" if len(elsewhere) == 1 else "refer"
        others = plural(len(elsewhere), "other column")
        text = f"{others} with this name {verb} to another key: {listing(keys, 3)}."
        yield Statement("columns", Bearing.NEUTRAL if alike else Bearing.AGAINST, text)
    reverse = [
        each for each in joins
        if (each.child, each.parent) == (found.parent, found.child) != (found.child, found.parent) and each not in back
    ]  # fmt: skip
    if reverse:
        shown = listing((f"`{column_name(each.child, each.child_columns)}`" for each in reverse), 3)
        text = f"The table `{quoted(found.parent.name)}` itself references `{quoted(found.child.name)}`, by {shown}."
        yield Statement("columns", Bearing.AGAINST, text)
    further = [each for each in joins if (each.parent, each.parent_columns) == to and each not in alike]
    if further:
        shown = listing((f"`{column_name(each.child, each.child_columns)}`" for each in further), 3)
        more = "further " if alike else "other "
        verb = "refers" if len(further) == 1 else "refer"
        text = f"{plural(len(further), more + 'column')} {verb} to this key: {shown}."
        yield Statement("columns", Bearing.FOR, text)


def _hints(subject: Subject) -> Iterator[Statement]:
    for hint in sorted(set(subject.evidence.sources) - NO_HINTS):
        bearing = Bearing.AGAINST if HINT_WEIGHTS.get(hint, 0.0) < 0 else Bearing.FOR
        yield Statement("hint", bearing, _hint_text(hint).states)
    similar = subject.evidence.similar
    counts = () if similar is None else ((similar.accepted, "accepted"), (similar.rejected, "rejected"))
    for (count, decided), bearing in zip(counts, (Bearing.FOR, Bearing.AGAINST), strict=False):
        if count:
            verb = "similar join was" if count == 1 else "similar joins were"
            yield Statement("hint", bearing, f"{count} {verb} {decided} by people.")
    if subject.evidence.lineage is not None:
        yield Statement("hint", Bearing.AGAINST, f"{subject.evidence.lineage.rstrip('.')}.")


def _hint_text(hint: str) -> HintText:
    return HINT_TEXTS.get(hint) or HintText(f"The hint `{hint}` names this join.", f"`{hint}` did not name this join")


def _of_composite(subject: Subject) -> Iterator[Statement]:
    evidence, check = subject.evidence, subject.evidence.check
    pairs = list(zip(subject.child.columns, evidence.parent_columns, strict=True))
    both = {pair: target for pair in pairs if (target := _common_target(subject, *pair)) is not None}
    named = [pair for pair in pairs if pair not in both]
    if named:
        matched = listing((f"`{own}` to `{key}`" for own, key in named), len(named))
        some = f"{len(named)} of the {len(pairs)}" if both else f"the {len(pairs)}"
        text = f"The names match {some} columns of the key of `{quoted(evidence.parent.name)}`: {matched}."
        yield Statement("name", Bearing.FOR, text)
    for (own, key), target in both.items():
        text = f"`{own}` and `{key}` of `{quoted(evidence.parent.name)}` both refer to `{target}`."
        yield Statement("columns", Bearing.FOR, text)
    if check is None or not check.rows:
        yield Statement("values", Bearing.NEUTRAL, "The combinations of values could not be compared.")
    else:
        yield _match_statement(subject, check, " in all of these columns")
    columns = set(subject.child.columns) - {own for own, _ in both}
    parts = [each for each in subject.known if each.child == subject.child.child and set(each.child_columns) <= columns]
    parts = [each for each in parts if len(each.child_columns) < len(pairs)]
    for part in parts:
        own = listing((f"`{quoted(each)}`" for each in part.child_columns), len(columns))
        text = f"By itself, {own} refers to `{column_name(part.parent, part.parent_columns)}`."
        yield Statement("columns", Bearing.NEUTRAL, text)
    if set(evidence.sources) <= NO_HINTS:
        yield Statement("score", Bearing.NEUTRAL, _composite_score(evidence))


def _common_target(subject: Subject, own: str, key: str) -> str | None:
    """Return the key that both a column and a differently named column of a composite key refer to, or None."""
    if own.casefold() == key.casefold():
        return None
    targets = [
        {column_name(e.parent, e.parent_columns) for e in subject.known if (e.child, e.child_columns) == (ref, (name,))}
        for ref, name in ((subject.child.child, own), (subject.evidence.parent, key))
    ]
    return min(targets[0] & targets[1], default=None)


def _composite_score(evidence: CandidateEvidence) -> str:
    """Return why a join of several columns has its score, one of a few fixed ones."""
    if evidence.check is None or not evidence.check.rows:
        why = "there are no rows to compare"
    elif evidence.probability >= 0.97:
        why = "the names identify the key, all rows match, and a chance match is unlikely"
    elif evidence.probability >= 0.9:
        why = "the names identify the key, or the rows match too well for chance"
    else:
        why = "the names are too generic to identify the key, and the rows could match by chance"
    return f"Multi-column joins get one of the scores 0.6, 0.9 and 0.97, here {evidence.probability:g}, because {why}."


def _of_branch(subject: Subject) -> Iterator[Statement]:
    evidence = subject.evidence
    column, value = evidence.condition or ("", "")
    table, kind = quoted(evidence.parent.name), f"`{quoted(column)}`"
    named = evidence.name_match.best > 0
    text = f"The column refers to different tables, depending on {kind}. "
    text += f"The value `{value}` " + (f"names the table `{table}`." if named else f"does not name `{table}`.")
    yield Statement("name", Bearing.FOR if named else Bearing.AGAINST, text)
    if evidence.check is not None and evidence.check.rows:
        yield _match_statement(subject, evidence.check, f" and {kind} = `{value}`")
    if not named:
        yield Statement("values", Bearing.FOR, "No other table contains these values.")
    others = [each for each in subject.child.candidates if each.condition is not None and each is not evidence]
    for other in others:
        key = column_name(other.parent, other.parent_columns)
        text = f"With {kind} = `{other.condition[1] if other.condition else ''}`, the column refers to `{key}`."
        yield Statement("columns", Bearing.NEUTRAL, text)
    if named:
        why = f"the value names the table `{table}`"
    elif evidence.probability > branch_probability(0.0, named=False):
        why = "other values of the column name their tables, although this one does not"
    else:
        why = "no value of the column names its table"
    text = "Joins that depend on another column get one of the scores 0.5, 0.8 and 0.95, here "
    text += f"{evidence.probability:g}, because {why}."
    yield Statement("score", Bearing.NEUTRAL, text)


def _of_part(subject: Subject) -> Iterator[Statement]:
    check, other = subject.evidence.check, ".".join(subject.evidence.shared_with or ())
    if check is not None:
        yield _match_statement(subject, check, "")
    yield Statement("values", Bearing.FOR, f"`{other}` contains all other values, and no value is in both keys.")


@dataclass(frozen=True, slots=True)
class RunnerUp(Record):
    """Another key that the column may refer to, and why the scan preferred the chosen one."""

    key: str
    probability: float
    name: str
    values: str
    why: str

    json_keys = ("key", "score=rounded", "name", "values", "why")

    @property
    def rounded(self) -> float:
        """The probability as in lists."""
        return round(self.probability, 3)


@dataclass(frozen=True, slots=True)
class Change(Record):
    """A condition under which the decision would be different, or would not be although one may think so.

    `probability` and `status` are those under the condition, or None if a scan cannot decide it.
    """

    condition: str
    text: str
    probability: float | None = None
    status: Status | None = None

    json_keys = ("condition", "text", "score=rounded", "status")

    @property
    def rounded(self) -> float | None:
        """The probability as in lists."""
        return None if self.probability is None else round(self.probability, 3)


@dataclass(frozen=True, slots=True)
class Explained:
    """What the evidence says. `steps`: the score after each kind of evidence. `doubts`: why a person has to decide.

    `has_unlikely_rivals`: whether keys contain the values that are not among the runners-up because of their names.
    """

    statements: tuple[Statement, ...] = ()
    steps: tuple[Step, ...] = ()
    runners_up: tuple[RunnerUp, ...] = ()
    changes: tuple[Change, ...] = ()
    doubts: tuple[str, ...] = ()
    has_unlikely_rivals: bool = False


LARGE_EFFECT: Final = 0.1
"""A condition that changes the score by less, and not the status, is not worth a sentence."""


def explain(subject: Subject) -> Explained:
    """Return what the evidence of a scan says about a relationship."""
    evidence = subject.evidence
    doubts = tuple(DOUBT_TEXTS[each] for each in doubts_of(evidence))
    found = Explained(statements(subject), runners_up=_runners_up(subject), doubts=doubts)
    if evidence.features:
        names, count = _matching_keys(subject)
        found = replace(found, has_unlikely_rivals=count > len(names))
    else:
        return replace(found, changes=tuple(_orphan_change(subject, None)))
    scorer = Scorer(evidence, subject.child.thresholds, load_ranker())
    if not scorer.is_current:
        return found
    # A relationship that is not a join whatever its score, because another join implies it, say, has no conditions.
    found_likely = evidence.probability >= subject.child.thresholds.review_threshold
    implied = subject.relationship.status is Status.REJECTED and evidence.lost is None and found_likely
    kinds = () if evidence.barred or implied else (_name_changes, _value_changes, _hint_changes, _rival_change)
    changes = [change for kind in kinds for change in kind(subject, scorer)]
    return replace(found, steps=tuple(scorer.steps()), changes=tuple(changes))


def _runners_up(subject: Subject) -> tuple[RunnerUp, ...]:
    """Return the other candidates of the column, most probable first."""
    own = subject.evidence
    key = (own.parent, own.parent_columns)
    others = [e for e in subject.child.candidates if (e.parent, e.parent_columns) != key and e.condition is None]
    return tuple(
        RunnerUp(
            column_name(each.parent, each.parent_columns),
            each.probability,
            name_text(subject.child.columns[0], each)[0],
            _values_text(each),
            _why(subject, each),
        )
        for each in others[:MOST_RUNNERS_UP]
    )


def _values_text(candidate: CandidateEvidence) -> str:
    check = candidate.check
    if check is None or not check.rows:
        return "no values to compare"
    if not check.missing:
        return "all rows match"
    return f"{share(check.missing, check.rows)} of rows do not match"


def _why(subject: Subject, other: CandidateEvidence) -> str:
    """Return why the other candidate was not chosen, or why it was, if the explained one was not."""
    own, child = subject.evidence, subject.child
    if own.condition is not None or own.shared_with is not None:
        return "several tables together explain all values"
    chosen = own.lost is not None and other.lost is None
    better, worse = (other, own) if chosen else (own, other)
    why = worse.lost if worse.barred else None
    if why is None and child.rule is not None and worse.probability > better.probability - LARGE_EFFECT:
        why = RULE_TEXTS[child.rule]
    if why is not None:
        why = loss_clause(why, "the other join" if chosen else "it").rstrip(".")
        return f"chosen because {why}" if chosen else why
    reasons = [each[0 if chosen else 1] for each in _differences(better, worse, child.thresholds)]
    if chosen:
        return f"chosen: {' and '.join(reasons) or 'it has the higher score'}"
    return " and ".join(reasons)


_GROUPS: Final[Mapping[str, tuple[frozenset[str], str, str]]] = {
    "names": (NAMES, "the name of its table fits better", "the name of its table fits less"),
    "key": (KEYS, "it is more plausible as a key", "it is less plausible as a key"),
    "columns": (COLUMNS, "other columns support it", "other columns support the chosen key"),
    "values": (VALUES, "the values cover more of this key", "the values cover less of this key"),
}
"""Group of features -> its features, and what it means if it is in favour of a candidate, or against it."""


def _differences(better: CandidateEvidence, worse: CandidateEvidence, thresholds: Thresholds) -> list[tuple[str, str]]:
    """Return by which evidence one candidate is better than another: said of the better, and of the worse one."""
    found = []
    if better.name_match.best >= worse.name_match.best + CLEAR_DIFFERENCE:
        found.append(("the name fits it better", "the name fits it less"))
    missing = [1.0 if each.check is None else each.check.violations for each in (better, worse)]
    if missing[1] > missing[0] + 0.005:
        found.append(("more rows match", "fewer rows match"))
    if set(better.sources) - NO_HINTS - set(worse.sources):
        found.append(("a hint names it", "no hint names it"))
    if found or not better.features or not worse.features:
        return found
    scorer = Scorer(worse, thresholds, load_ranker())
    if not scorer.is_current:
        return []
    others = dict(zip((*FEATURES, *NEIGHBOUR_FEATURES), (*better.features, *better.neighbours), strict=False))
    gains = {
        name: scorer.probability({each: others[each] for each in features if each in others}) - worse.probability
        for name, (features, _, _) in _GROUPS.items()
    }
    largest = max(gains, key=lambda name: gains[name])
    return [_GROUPS[largest][1:]] if gains[largest] >= SMALL_EFFECT else []


def _name_changes(subject: Subject, scorer: Scorer) -> Iterator[Change]:
    match = subject.evidence.name_match
    if match.best or match.meaning:
        better = sum(e.name_match.best > 0 for e in subject.child.candidates if e is not subject.evidence)
        yield _changed(subject, "no_name", "If the column's name were ignored", scorer.without_name(better))
    if subject.feature("namesakes"):
        condition = "If other columns with this name were ignored"
        yield from _if_relevant(subject, "no_namesakes", condition, scorer.without_namesakes())


def _value_changes(subject: Subject, scorer: Scorer) -> Iterator[Change]:
    status = scorer.outcome().status
    yield from _orphan_change(subject, scorer)
    if status is Status.ACCEPTED:
        return
    if subject.evidence.check is not None and subject.evidence.check.missing:
        outcome = scorer.with_all_matches()
        yield _changed(subject, "all_match", "If every row had a match", outcome)
    if subject.evidence.empty:
        yield from _rows_change(subject, scorer)
    elif subject.evidence.rivals:
        yield from _if_relevant(subject, "no_rivals", "If no other key contained the values", scorer.without_rivals())


def _rows_change(subject: Subject, scorer: Scorer) -> Iterator[Change]:
    """Yield what a join without rows is waiting for."""
    if subject.relationship.status is not Status.REVIEW:
        return
    text = "As soon as there are values, the next scan compares them and decides. Until then, only a person can."
    yield Change("rows", text)
    if scorer.probability() >= subject.child.thresholds.accept_threshold and not doubts_of(subject.evidence):
        text = "With `scan.relationships.validationRequiredForManifest: false`, ktx would accept it without rows."
        yield Change("no_validation", text, scorer.probability(), Status.ACCEPTED)


def _orphan_change(subject: Subject, scorer: Scorer | None) -> Iterator[Change]:
    """Yield with how many orphans an accepted relationship would need review, and with how many one would not."""
    check = subject.evidence.check
    if check is None or not check.rows:
        return
    now = f"currently {share(check.missing, check.rows)}"
    most = MAX_VIOLATIONS if scorer is None else scorer.tolerated_orphans()
    if subject.evidence.shared_with is not None:
        yield Change("orphans", "If a value were in both keys or in neither, the scan would not accept the join.")
    elif subject.relationship.status is Status.ACCEPTED:
        several = int(most * check.rows + 1e-9) > 0
        condition = f"more than {share(most, 1)} of rows had no match" if several else "any row had no match"
        text = f"The join would go to review if {condition} ({now})."
        yield Change("orphans", text, status=Status.REVIEW)
    elif check.violations > MAX_VIOLATIONS and most:
        limit = share(most, 1)
        yield Change("orphans", f"For a scan to accept it, at most {limit} of rows may have no match ({now}).")


def _hint_changes(subject: Subject, scorer: Scorer) -> Iterator[Change]:
    if scorer.hints:
        named = " and ".join(_hint_text(each).without for each in sorted(scorer.hints))
        yield _changed(subject, "no_hints", f"If {named}", scorer.without_hints())
    if subject.evidence.similar is not None:
        condition = "If people had not decided about similar joins"
        yield _changed(subject, "no_decisions", condition, scorer.without_decisions())
    is_likely = scorer.probability() >= subject.child.thresholds.accept_threshold
    liftable = set(doubts_of(subject.evidence)) & VAGUE
    if subject.evidence.empty or (is_likely and not liftable and subject.evidence.lost is None):
        return
    for hint in dict.fromkeys([scorer.needed_hint(), "dbt"]):
        if hint is not None and hint not in scorer.hints:
            yield _changed(subject, f"with_{hint}", f"If {_hint_text(hint).also}", scorer.with_hint(hint))


def _rival_change(subject: Subject, scorer: Scorer) -> Iterator[Change]:
    """Yield which key would be next if the chosen one did not exist."""
    own, child = subject.evidence, subject.child
    others = [e for e in child.candidates if e is not own and e.condition is None and not e.barred]
    if own.lost is not None or not others:
        return
    second = max(others, key=lambda each: each.probability)
    if second.probability < LEAST_PROBABILITY:
        return
    status = status_of(second.probability, second.check, scorer.thresholds, empty=not second.key_distinct)
    status = Status.REVIEW if status is Status.ACCEPTED and second.lineage is not None else status
    name = column_name(second.parent, second.parent_columns)
    text = f"If this key were excluded, `{name}` would be next, with {second.probability:.3f}: "
    text += f"{_STATUS_TEXTS[status]}."
    yield Change("without_key", text, second.probability, status)


def _if_relevant(subject: Subject, condition: str, what: str, outcome: Outcome) -> Iterator[Change]:
    """Yield a change if it has a large effect on the score, or changes the status."""
    effect = abs(outcome.probability - subject.evidence.probability)
    if effect >= LARGE_EFFECT or outcome.status is not subject.relationship.status:
        yield _changed(subject, condition, what, outcome)


_STATUS_TEXTS: Final[Mapping[Status, str]] = {
    Status.ACCEPTED: "accepted",
    Status.REVIEW: "for review",
    Status.REJECTED: "rejected",
}


def _changed(subject: Subject, condition: str, what: str, outcome: Outcome) -> Change:
    scored = f"{what}, the score would be {outcome.probability:.3f}"
    winner = winner_over(subject.child, subject.evidence)
    if winner is None or outcome.status is Status.REJECTED:
        return Change(condition, f"{scored}: {_STATUS_TEXTS[outcome.status]}.", outcome.probability, outcome.status)
    name = column_name(winner.parent, winner.parent_columns)
    if outcome.probability <= winner.probability:
        text = f"{scored}, which is still less than that of `{name}`."
        return Change(condition, text, outcome.probability, Status.REJECTED)
    text = f"{scored}, more than that of `{name}`: {_STATUS_TEXTS[outcome.status]}."
    return Change(condition, text, outcome.probability, outcome.status)
