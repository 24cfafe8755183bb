"""Drafts the semantic layer query for a question: measures, dimensions, times and filters.

The draft only matches words with names, and lists words without a match. If the semantic layer refuses the draft, the
result has the reason instead, and SQL with the correct joins to start with.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.jobs.pack.question import (
    AVERAGE,
    BESIDE,
    BETWEEN,
    CUT,
    FILLER_STEMS,
    MONEY,
    MONTHS,
    OFTEN,
    PIECES,
    RANK_STEMS,
    RANK_WORDS,
    REQUEST_STEMS,
    TIMES,
    FindValues,
    alike,
    amount_subject,
    bindings,
    by_value,
    conditions,
    counted_noun,
    grain_of,
    how_often,
    measured_part,
    negated,
    period,
    ranking,
    wanted_aggregate,
    which_things,
)
from ktx_cli.semantic import MOST_ROWS, NOT_SHOWN, SemanticError, time_of

if TYPE_CHECKING:
    from ktx_cli.search import FoundTable
    from ktx_cli.semantic import Caller, Column, Graph, Measure, Source, VisibleModel

_CANDIDATES: Final = 14
"""Number of the best sources to consider as the fact."""
_MONEY_WORDS: Final = (
    "amount total price revenue value cost costs spend sales turnover fee net gross balance paid credit debit"
)
_MONEY_NAMES: Final = frozenset(_MONEY_WORDS.split())
_BESIDE_MONEY: Final = frozenset(["tax", "discount", "quantity", "qty", "units", "count", "rate"])
_PIECE_NAMES: Final = frozenset(["quantity", "qty", "units", "unit", "pieces", "volume", "count"])
_COUNTS: Final = 1.0
"""Score if the question counts the rows of a source."""
_ROWS: Final = 0.5
"""Score for counting the rows of a source if the measured part is the name of the source."""
_BY_NAME: Final = 0.8
"""Score for a measure whose whole name, label or synonym is in the question; double if nothing else is."""
_EXACT: Final = 0.5
"""Further score for a measure whose name of several words is all that the question asks for."""
_OTHER_NAME: Final = 0.3
"""Penalty for a label or synonym, compared with the name."""
_ELSEWHERE: Final = 0.2
"""Penalty for the synonym of a measure with the same name in another source."""
_GROUPED: Final = 0.6
"""Penalty for a source with grouped rows if the question is about a number of things."""
_BUYING: Final = frozenset({"supplier", "vendor", "purchas", "procurement", "po", "creditor"})
_SELLERS: Final = frozenset({"supplier", "vendor", "creditor", "po", "procurement"})
_BOUGHT: Final = 0.9
"""Penalty for a source about purchasing if the question is about something else."""
_SUMMED: Final = re.compile(r"\s*sum\s*\(\s*(\w+)\s*\)\s*", re.IGNORECASE)
_TRIED: Final = 5
"""Number of facts to try for the dimensions of the question."""
_UNRESOLVED: Final = 0.9
"""Penalty for a dimension that a fact does not reach."""
_REFUSED: Final = 0.6
"""The maximum score by which an accepted draft may be worse than a refused one that it replaces."""
_ENTITY: Final = 0.8
"""Score if a source is about the subject of the question."""
_EQUAL: Final = 0.005
"""The score by which measures are equally likely."""
_FEW: Final = 8
_OWN: Final = 1.0
"""Weight of a source's rank relative to its measure."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A query for a question, or None with `reasons` if the semantic layer has no correct answer.

    `reasons` are sentences about the parts with their files. `sources` are the required sources, fact first. `columns`
    maps sources to the used columns. `bindings` are conditions for values in the question with their files. `sql` is a
    statement to start with if there is no query. `reached` are the sources with one row for each row of the fact,
    nearest first.
    """

    connection: str
    query: Mapping[str, Any] | None
    reasons: tuple[tuple[str, str], ...]
    sources: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]
    bindings: tuple[tuple[str, str], ...] = ()
    sql: str = ""
    path: str = ""
    reached: tuple[str, ...] = ()

    def query_text(self) -> str:
        """Return the query as JSON on one line."""
        return json.dumps(self.query, ensure_ascii=False)

    def to_json(self) -> dict[str, Any]:
        """Return the draft for the envelope."""
        return {
            "query": self.query,
            "reasons": [text for text, _ in self.reasons],
            "sources": list(self.sources),
            "sql": self.sql or None,
        }


@dataclass(slots=True)
class _Parts:
    """The parts of a draft so far."""

    fact: Source
    query: dict[str, Any] = field(default_factory=dict)
    bindings: list[tuple[str, str]] = field(default_factory=list)
    unresolved: float = 0
    reasons: list[tuple[str, str]] = field(default_factory=list)
    columns: dict[str, list[str]] = field(default_factory=dict)
    sources: dict[str, None] = field(default_factory=dict)

    def use(self, source: str, *columns: str) -> None:
        self.sources.setdefault(source)
        self.columns.setdefault(source, []).extend(columns)

    def note(self, reason: str, path: str = "") -> None:
        if (reason, path) not in self.reasons:
            self.reasons.append((reason, path))


class Drafter:
    """Drafts the query for one question.

    `facts` are the sources that match `measured_part`, and `tables` those that match the question, best first.
    `find_values` searches column values, or is None if values are not allowed. `caller`: for whom the draft compiles.
    """

    def __init__(
        self,
        shown: VisibleModel,
        graph: Graph,
        question: str,
        facts: Sequence[FoundTable],
        tables: Sequence[FoundTable],
        find_values: FindValues | None,
        caller: Caller,
    ) -> None:
        """Prepare the draft from the layer, its joins, the question and the search results."""
        from ktx_cli.search import folded

        self._shown, self._graph, self._model = shown, graph, shown.model
        self._facts, self._tables = facts[:_CANDIDATES], tables
        self._caller = caller
        self._stems: dict[str, list[str]] = {}
        self._shows_values = find_values is not None
        self._find_values: FindValues = find_values or (lambda text: ())
        reordered = by_value(question)
        self._is_reordered = reordered != question
        self._text = folded(re.sub(r"\([^)]*\)", " ", reordered)).strip().rstrip("?.! ")
        self._ranking = ranking(self._text)
        self._parts: _Parts
        cut = CUT.search(self._text)
        self._cut = cut[1] if cut else ""
        self._asked = folded(measured_part(question))
        self._noun = self._words(counted_noun(self._asked))
        """The stems of the counted noun, such as `support tickets` in `How many support tickets were there`."""
        self._object = [] if self._noun else self._words(amount_subject(self._asked))
        """The stems of the subject of an amount, such as `ads` in `the cost of our ads`."""
        self._common = self._common_words()
        self._which = "" if self._cut else which_things(self._text)
        self._often = how_often(self._text)
        self._negated = self._words(negated(self._text))
        words = self._words(self._asked)
        others = {*REQUEST_STEMS, *RANK_STEMS, *self._words(self._which), *self._words(self._often)}
        self._plain = set(words) - others or set(words)
        """The stems of the measured part without words about the result, such as `show`, `highest` and `monthly`."""
        self._named_elsewhere = self._names_by_measure()

    def _words(self, text: str) -> list[str]:
        """Return the stems of the significant words of a text."""
        if text not in self._stems:
            from ktx_cli.search import is_stop_word, plain_words, stem

            self._stems[text] = [stem(each) for each in plain_words(text) if not is_stop_word(each)]
        return self._stems[text]

    def _names_by_measure(self) -> dict[str, list[str]]:
        """Return the labels and synonyms of reviewed measures by measure name, for measures of other facts."""
        names: dict[str, list[str]] = {}
        for table in self._facts:
            for measure in self._shown.measures(self._model.sources[table.name]):
                if not measure.is_proposed:
                    names.setdefault(measure.name, []).extend(_other_names(measure))
        return names

    def _common_words(self) -> set[str]:
        """Return the stems that many descriptions share (`One row for each of the ...`), which are irrelevant."""
        names = dict.fromkeys(each.name for each in (*self._facts, *self._tables))
        texts = [set(self._words(self._model.sources[name].description or "")) for name in names]
        texts = [each for each in texts if each]
        counts = Counter(word for words in texts for word in words)
        return {word for word, count in counts.items() if len(texts) >= _FEW and 5 * count > len(texts)}

    def _entity(self, source: Source) -> float:
        """Return how well the subject of a source, by name or description, matches the question, from 0 to 1."""
        from ktx_cli.search import alternatives

        words = set(self._object or self._words(self._asked))
        related = {other for word in words for other in alternatives(word)}

        def covered(text: str) -> float:
            own = [each for each in self._words(text) if each not in self._common]
            return sum(1.0 if each in words else 0.7 * (each in related) for each in own) / len(own) if own else 0.0

        return max(covered(source.name), covered(source.description or ""))

    def _is_bought(self, source: Source) -> bool:
        """Whether the columns of a source are about purchasing and the question is not."""
        from ktx_cli.search import plain_words

        names = {word for name in (source.name, *source.columns) for word in plain_words(name)}
        return bool(names & _SELLERS) and not _BUYING & {*self._words(self._asked)}

    def _is_counted(self, source: Source) -> float:
        """Return how well the rows of a source match the counted noun, from 0 to 1."""
        if not self._noun:
            return 0.0
        from ktx_cli.search import alternatives

        name, description = self._words(source.name), self._words(source.description or "")
        last = self._noun[-1]
        own = [each for each in name if each in self._noun]
        if own:
            return 1.0 if set(name) <= set(self._noun) else 0.55
        if last in description:
            return 0.8
        related = {other for word in self._noun for other in alternatives(word)}
        return 0.7 if set(name) <= related else 0.4 if related & {*name, *description} else 0.0

    def draft(self) -> Draft | None:
        """Return the draft for the best fact that has or reaches the dimensions of the question, or None.

        A refused draft gives way to an accepted one that is not much worse.
        """
        found: dict[str, tuple[float, _Parts]] = {}
        measures = self._measures()
        for total, fact, expr, why, path in measures:
            best = max((score for score, _ in found.values()), default=total)
            if fact.name not in found and len(found) < _TRIED and total > best - _REFUSED:
                parts = self._parts_of(fact, expr, why, path)
                near = (
                    each[2] for each in measures if each[1] is fact and each[0] > total - _EQUAL and "(" not in each[2]
                )
                rivals = [each for each in near if each not in parts.query["measures"]]
                if rivals:
                    parts.reasons.insert(1, (f"it could also be {rivals[0]}", path))
                found[fact.name] = (total - _UNRESOLVED * parts.unresolved, parts)
        ranked = sorted(found.values(), key=lambda each: -each[0])
        drafts = (self._drafted(parts) for score, parts in ranked if score > ranked[0][0] - _REFUSED)
        first = next(drafts, None)
        return first if first is None or first.query is not None else next((x for x in drafts if x.query), first)

    def _parts_of(self, fact: Source, expr: str, why: str, path: str) -> _Parts:
        """Return the parts of the draft for a fact."""
        self._parts = parts = _Parts(fact)
        parts.use(fact.name)
        parts.note(why, path)
        parts.query = {"connection": self._model.connection, "measures": [expr]}
        several = BESIDE.split(self._asked)
        for each in several if len(several) > 1 else ():
            self._add_measure(fact, self._measure_for(fact, each, words=2, or_whole=True), each.strip())
        dimensions = list(self._dimensions(fact))
        if self._often and not any(isinstance(each, dict) for each in dimensions) and self._often not in expr:
            time = self._truncated(fact, self._often, grain_of(self._often))
            dimensions += [] if time is None else [time]
        time_range = self._time_range(fact)
        parts.bindings = self._conditions(fact, expr) if self._shows_values else []
        repeated = self._repeated(parts.bindings)
        dimensions += [each for each in repeated if each not in dimensions]
        if dimensions:
            parts.query["dimensions"] = dimensions
        if time_range:
            parts.query["time_range"] = time_range
        filters = [condition for condition, _ in parts.bindings if condition.partition(" = ")[0] not in repeated]
        filters += [f"{column} in ({', '.join(values)})" for column, values in repeated.items()]
        if filters:
            parts.query["filters"] = filters
        self._rank(expr, dimensions)
        return parts

    def _rank(self, expr: str, dimensions: Sequence[Any]) -> None:
        """Add the order and the limit of a ranking to the query, or the reason why it has none."""
        asked, parts = self._ranking, self._parts
        if asked is None or not dimensions:
            return
        if asked.descending is None:
            reason = "the draft does not sort: the question may mean the highest or the lowest values"
            parts.note(reason)
        else:
            place = f"{len(dimensions) + 1}" if "(" in expr else expr  # an expression is sorted by its position
            parts.query["order_by"] = [f"{place} desc" if asked.descending else place]
        is_of_dimension = self._is_reordered or not self._cut
        is_plain = asked.descending is not None and len(dimensions) == 1 and is_of_dimension
        if is_plain and asked.count and asked.count <= MOST_ROWS:
            parts.query["limit"] = asked.count
        elif asked.limit:
            parts.note(f"the draft does not limit the result (`{asked.limit}`)")

    def _doubt(self, parts: _Parts) -> str | None:
        """Return the reason to reject a draft, or None. Words that the draft ignores are added to its reasons."""
        expr = parts.query["measures"][0]
        measure = parts.fact.measure(expr.rpartition(".")[2]) if "(" not in expr else None
        wanted = wanted_aggregate(self._text)
        names = () if measure is None else (*_other_names(measure), *filter(self._is_asked, measure.questions))
        is_named = any(self._plain == set(self._words(each)) or self._is_asked(each) for each in names)
        is_other = measure is not None and wanted in ("avg", "share") and _aggregate(measure) not in (wanted, None)
        if is_other and not is_named:
            kind = "an average" if wanted == "avg" else "a share"
            return f"the question asks for {kind}, but no matching measure computes one; {expr} is the nearest"
        if self._ranking is not None and "dimensions" not in parts.query:
            return "the question ranks something without its number; ask for example: top 5 customers by revenue"
        if self._ranking is not None and self._ranking.count and self._cut and not self._is_reordered:
            return f"the question does not say by which number to rank (`{self._ranking.limit}`)"
        query = {**parts.query, "time_range": parts.query.get("time_range", {}).get("field", "").rpartition(".")[2]}
        used = f"{expr} {json.dumps(query)} {parts.fact.name} {parts.fact.description or ''} {self._cut}"
        if measure is not None:
            used += f" {measure.description or ''} {measure.filter or ''} {' '.join(names)} "
        used += " ".join(parts.columns.get(parts.fact.name, ()))
        used += f" {self._often}" if any(isinstance(each, dict) for each in parts.query.get("dimensions", ())) else ""
        if self._negated and not {*self._words(negated(used))} & {*self._negated}:
            return f"the question excludes something (`not {negated(self._text)}`), but the draft does not"
        left = [*conditions(self._text)]
        left += [each for each in self._left_out(used) if "order_by" not in parts.query or each not in RANK_WORDS]
        if left:
            words = ", ".join(f"`{each}`" for each in left[:6])
            parts.note(f"not in the draft: {words}; find out what they mean before you run the query")
        telling = self._telling()
        if telling and len(left) > _MOST_LEFT * len(telling):
            return "the semantic layer has no names for most of the question"
        return None

    def _telling(self) -> list[str]:
        """Return the significant words about the measure, in their original spelling."""
        from ktx_cli.search import is_generic, is_stop_word, plain_words, stem

        words = dict.fromkeys(plain_words(self._asked))
        return [
            word
            for word in words
            if not (is_stop_word(word) or is_generic(word) or any(map(str.isdigit, word)))
            and stem(word) not in FILLER_STEMS | REQUEST_STEMS
            and word not in MONTHS
        ]

    def _left_out(self, used: str) -> list[str]:
        """Return the significant words that no part of a draft covers."""
        from ktx_cli.search import alternatives, stem

        stems = set(self._words(used))
        return [word for word in self._telling() if not alike(stem(word), stems) and not stems & {*alternatives(word)}]

    def _drafted(self, parts: _Parts) -> Draft:
        self._parts = parts
        doubt = self._doubt(parts)
        refused = doubt or self._refusal(parts.query)
        # An unfiltered measure is better than no draft.
        if refused is not None and doubt is None and "filters" in parts.query:
            without = {key: value for key, value in parts.query.items() if key != "filters"}
            if self._refusal(without) is None:
                left = "; ".join(parts.query["filters"])
                parts.note(f"omitted, because the semantic layer refuses it: {left} ({refused})")
                parts.query, refused = without, None
        refusal = [] if refused is None else [(f"no draft: {refused}", "")]
        return Draft(
            connection=self._model.connection,
            query=parts.query if refused is None else None,
            reasons=(*parts.reasons, *refusal),
            sources=tuple(parts.sources),
            columns={name: tuple(dict.fromkeys(each)) for name, each in parts.columns.items()},
            bindings=tuple(parts.bindings),
            sql="" if refused is None else self._sql(parts.fact),
            path=_path(parts.fact),
            reached=tuple(name for _, name in self._reached(parts.fact)),
        )

    @staticmethod
    def _repeated(bindings: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
        """Return the columns with several values in the question, which it compares instead of filtering by one."""
        values: dict[str, list[str]] = {}
        for condition, _ in bindings:
            column, _, value = condition.partition(" = ")
            values.setdefault(column, []).append(value)
        return {column: each for column, each in values.items() if len(each) > 1}

    def _measures(self) -> list[tuple[float, Source, str, str, str]]:
        """Return (score, fact, measure or expression, reason, file) of all candidate measures, best first."""
        found = []
        top = max((each.own for each in self._facts), default=0.0) or 1.0
        for place, table in enumerate(self._facts):
            source = self._model.sources[table.name]
            share = _OWN * table.own / top + _ENTITY * self._entity(source) - _BOUGHT * self._is_bought(source)
            for score, expr, why, path in self._options(source, table):
                found.append((score + share - 0.01 * place, source, expr, why, path))
        return sorted(found, key=lambda each: (-round(each[0], 6), each[1].name, each[2]))

    def _options(self, source: Source, table: FoundTable) -> Iterator[tuple[float, str, str, str]]:
        """Yield (score, measure or expression, reason, file) of the candidate measures of a source."""
        wanted = wanted_aggregate(self._text)
        words = self._words(self._asked)
        about = [*self._words(source.name), *self._words(source.description or "")]
        is_rows = wanted is None and self._is_about_rows(source)
        has_count = False
        for measure in self._shown.measures(source):
            named = self._named(words, measure, about)
            described = self._fit(words, self._words(measure.description or ""), about)
            how = _aggregate(measure)
            kind = 0.35 if how == wanted else -0.25 if wanted and how else 0.0
            kind -= 0.4 * (wanted in ("sum", "avg") and how == "count")
            kind -= _BY_NAME * (wanted == "share" and how not in ("share", None))
            summed = _SUMMED.fullmatch(measure.expr)
            if wanted == "avg" and how == "sum" and summed and source.column(summed[1]) in self._shown.columns(source):
                about_it = f"the average of the values that {source.name}.{measure.name} adds up"
                money = 0.3 * self._is_of_money(measure)
                score = named + 0.3 + money + (0.3 if table.members.get(measure.name) else 0.0)
                yield score, f"avg({source.name}.{summed[1]})", about_it, _path(source)
            known = -0.1 if measure.is_proposed else 0.15
            found = 0.3 if table.members.get(measure.name) else 0.0
            if wanted in ("sum", "avg"):
                kind += 0.3 * (self._is_of_pieces(f"{measure.name} {measure.expr}") or self._is_of_money(measure))
            counts_rows = measure.expr.replace(" ", "").casefold() == "count(*)"
            kind += _ROWS * (is_rows and counts_rows and not measure.is_proposed)
            has_count |= counts_rows
            if wanted == "count":
                kind += _COUNTS * self._is_counted(source) if counts_rows else -0.3
                kind -= _GROUPED * _is_grouped(source)
            expr = measure.expr if self._shown.can_show(source, measure.expr) else NOT_SHOWN
            why = f"{source.name}.{measure.name}: {measure.description or expr}"
            why += " (proposed, not reviewed)" if measure.is_proposed else ""
            place = measure.place.path if measure.place is not None else _path(source)
            yield named + 0.3 * described + kind + known + found, f"{source.name}.{measure.name}", why, place
        if wanted == "count" and _is_grouped(source):
            return
        if wanted == "count" or (is_rows and not has_count):
            names = [each.name for each in self._shown.columns(source)]
            key = source.grain[0] if source.keyed and len(source.grain) == 1 and source.grain[0] in names else None
            if not names:
                return
            expr = f"count(distinct {source.name}.{key})" if key else f"count({source.name}.{names[0]})"
            fit = self._fit(words, self._words(source.name), about)
            yield (
                0.1 + fit + max(_ROWS * is_rows, _COUNTS * self._is_counted(source)),
                expr,
                f"no measure counts {source.name}, so the draft counts its rows by their key",
                _path(source),
            )
            return
        for column in self._shown.columns(source):
            if column.type.value != "number" or column.name in source.grain or column.name.endswith("_id"):
                continue
            fit = self._fit(words, self._words(column.name), about)
            fit += 0.6 * self._is_of_pieces(column.name) if fit > 0 else 0.0
            if fit > 0:
                how = "avg" if wanted == "avg" else "sum"
                yield (
                    fit,
                    f"{how}({source.name}.{column.name})",
                    f"no measure matches better than the column {source.name}.{column.name}",
                    _path(source),
                )

    def _named(self, words: Sequence[str], measure: Measure, about: Collection[str]) -> float:
        """Return how well the best name of a measure matches the question: its name, label, or a synonym or question.

        Other facts may have a measure of the same name, whose synonyms count less.
        """
        name = self._words(measure.name)
        fit = self._name_fit(words, name, about) + _EXACT * (len(name) > 1 and set(name) == self._plain)
        if any(self._is_asked(each) for each in measure.questions):
            fit = max(fit, self._fit(words, words, about) + 2 * _BY_NAME - _OTHER_NAME)
        names = _other_names(measure)
        for each in names:
            fit = max(fit, self._name_fit(words, self._words(each), about, is_declared=True) - _OTHER_NAME)
        for each in self._named_elsewhere.get(measure.name, ()):
            if each not in names:
                fit = max(fit, self._name_fit(words, self._words(each), about) - _OTHER_NAME - _ELSEWHERE)
        return fit

    def _is_asked(self, question: str) -> bool:
        """Return whether a question that a definition answers has the significant words of this one."""
        is_same = {each for each in self._words(question) if each not in REQUEST_STEMS} == self._plain
        return is_same and wanted_aggregate(question.casefold()) == wanted_aggregate(self._text)

    def _name_fit(
        self, words: Sequence[str], name: Sequence[str], about: Collection[str], *, is_declared: bool = False
    ) -> float:
        """Return how well a name matches the question, with a bonus if the question contains all of it.

        A name of one word that is also in the name or description of its source has no bonus, unless it is declared.
        """
        fit, own = self._fit(words, name, about), set(name)
        if own and own in (self._plain, set(words)):
            return fit + 2 * _BY_NAME
        is_whole = bool(own) and own <= set(words)
        return fit + _BY_NAME * (is_whole and (is_declared or len(name) > 1 or not own & set(about)))

    def _is_about_rows(self, source: Source) -> bool:
        """Return whether a question is about the rows of a source, such as `employees hired` with `hired_on`."""
        name = set(self._words(source.name))
        rest = self._plain - name
        times = (each.name for each in self._shown.columns(source) if each.type.value == "time")
        return name <= self._plain and (not rest or any(rest <= set(self._words(each)) for each in times))

    def _is_of_pieces(self, names: str) -> float:
        """Return 1 if the question is about quantities and so are the names, -1 if they are not, or 0."""
        if not PIECES.search(self._text):
            return 0.0
        words = set(re.split(r"[^a-z]+", names.casefold()))
        return 1.0 if words & _PIECE_NAMES and not words & _MONEY_NAMES - {"total"} else -1.0

    def _is_of_money(self, measure: Measure) -> float:
        """Return 1 if the question is about money and so is the measure, -1 if the measure is not, or 0."""
        if not MONEY.search(self._text):
            return 0.0
        words = set(re.split(r"[^a-z]+", f"{measure.name} {measure.expr}".casefold()))
        return 1.0 if words & _MONEY_NAMES and not words & _BESIDE_MONEY else -1.0

    def _fit(self, words: Sequence[str], name: Sequence[str], about: Collection[str]) -> float:
        """Return how well a name matches the question, from 0 to about 1.5 including the subject of the source."""
        from ktx_cli.search import alternatives

        if not name:
            return 0.0
        asked = set(words)
        related = {other for word in words for other in alternatives(word)}
        own = [each for each in name if each not in about and each not in FILLER_STEMS]
        shared = (
            sum(alike(each, asked) or 0.7 * (each in related) for each in own) / len(own)
            if own
            else 0.5 * bool(asked & set(about))
        )
        covered = sum(1 for each in asked if each in set(name) | set(about)) / (len(asked) or 1)
        return shared + 0.5 * covered

    def _dimensions(self, fact: Source) -> Iterator[Any]:
        for part in BETWEEN.split(self._cut or self._which):
            text = " ".join(OFTEN.sub(" ", TIMES.sub(" ", part)).split())
            if not text:
                continue
            found = self._column_for(fact, text)
            is_number = found is not None and found[0] is fact and self._is_amount(fact, found[1])
            measure = self._measure_for(fact, text, words=1 if found is None or is_number else 2)
            if measure is None and found is not None and is_number:
                measure = self._sum_of(fact, found[1])
            if measure is not None:
                self._add_measure(fact, measure, text)
                continue
            grain = grain_of(text)
            time = self._truncated(fact, text, grain) if grain else None
            if time is not None:
                yield time
                continue
            if found is None:
                self._parts.unresolved += 1
                self._parts.note(f"by {text}: no column of {fact.name} or its joined sources has a matching name")
                continue
            source, column = found
            self._parts.use(source.name, column.name)
            self._parts.note(f"by {text}: {source.name}.{column.name}", _path(source))
            yield f"{source.name}.{column.name}"

    def _truncated(self, fact: Source, text: str, grain: str) -> dict[str, str] | None:
        """Return the time dimension for a phrase such as `month` or `monthly`, or None if the fact has no time."""
        name = self._time(fact)
        if name is None:
            return None
        grain = f"fiscal_{grain}" if "fiscal" in text and grain in ("year", "quarter") else grain
        by = "" if text == self._often else "by "
        self._parts.note(f"{by}{text}: {name}, truncated to {grain}", _path(fact))
        return {"field": name, "granularity": grain}

    def _measure_for(self, fact: Source, text: str, words: int, *, or_whole: bool = False) -> str | None:
        """Return the measure of a fact whose whole name, of at least so many words, is in a phrase; the longest one.

        With `or_whole`, a shorter name fits if it is the phrase.
        """
        asked = set(self._words(text.replace("_", " ")))
        named = [
            (each, self._words(name.replace("_", " ")))
            for each in self._shown.measures(fact)
            for name in (each.name, *_other_names(each))
        ]
        fitting = [
            (len(own), not each.is_proposed, each.name)
            for each, own in named
            if set(own) <= asked and (len(own) >= words or (or_whole and own and set(own) == asked))
        ]
        return f"{fact.name}.{max(fitting)[2]}" if fitting else None

    def _summing(self, fact: Source, column: Column) -> Measure | None:
        """Return the measure that adds up a column."""
        sums = ((measure, _SUMMED.fullmatch(measure.expr)) for measure in self._shown.measures(fact))
        return next((measure for measure, summed in sums if summed and summed[1] == column.name), None)

    def _is_amount(self, fact: Source, column: Column) -> bool:
        """Return whether a column is a number to sum rather than to group by."""
        if column.type.value != "number" or column.name in fact.grain or column.name.endswith("_id"):
            return False
        names = set(column.name.casefold().split("_"))
        return self._summing(fact, column) is not None or bool(names & (_MONEY_NAMES | _PIECE_NAMES))

    def _sum_of(self, fact: Source, column: Column) -> str:
        """Return the measure of an amount."""
        measure = self._summing(fact, column)
        return f"sum({fact.name}.{column.name})" if measure is None else f"{fact.name}.{measure.name}"

    def _add_measure(self, fact: Source, expr: str | None, text: str) -> None:
        """Add a further measure to the query."""
        if expr is not None and expr not in self._parts.query["measures"]:
            self._parts.query["measures"].append(expr)
            self._parts.note(f"{text}: {expr}", _path(fact))

    def _column_for(self, fact: Source, text: str) -> tuple[Source, Column] | None:
        """Return the column for a phrase, in the fact or in a source with one row for each of its rows."""
        words = self._words(text)
        best: tuple[float, int, str, str] | None = None
        for distance, name in self._reached(fact):
            source = self._model.sources.get(name)
            if source is None or not self._shown.has(source):
                continue
            about = {*self._words(source.name), *self._words(source.description or "")}
            for column in self._shown.columns(source):
                for called in (column.name, *_other_names(column)):
                    own = self._words(called)
                    direct = sum(1 for word in words if alike(word, set(own)))
                    if not direct:
                        continue
                    context = sum(1 for word in words if word in about and not alike(word, set(own)))
                    extra = len([each for each in own if each not in words])
                    score = direct + 0.6 * context - 0.15 * extra - 0.1 * distance
                    score -= 0.3 if column.name.endswith("_id") and "id" not in words else 0.0
                    key = (score, -distance, name, column.name)
                    if best is None or (key[0], key[1]) > (best[0], best[1]):
                        best = key
        if best is None:
            return None
        source = self._model.sources[best[2]]
        return source, source.columns[best[3]]

    def _reached(self, fact: Source) -> Iterator[tuple[int, str]]:
        """Yield the sources that a fact reaches over to-one joins with the number of joins, nearest first."""
        seen = {fact.name}
        level = [fact.name]
        distance = 0
        while level and distance <= 3:
            for name in level:
                yield distance, name
            following = []
            for name in level:
                for edge in self._graph.edges(name):
                    if edge.to_one and edge.target not in seen:
                        seen.add(edge.target)
                        following.append(edge.target)
            level, distance = following, distance + 1

    def _time(self, fact: Source) -> str | None:
        """Return the time column of a fact: its default, or the one that its name suggests. None if it is hidden.

        The question may name another one, as in tickets that were closed; amounts keep their default. A fact without
        times has that of the source that its name contains, as `order_lines` has that of `orders`. If other columns
        could be meant, a reason of the draft lists them.
        """
        names = {each.name for each in self._shown.columns(fact)}
        time = time_of(fact, None)
        times = [each for each in _times(fact) if each in names]
        named = self._named_time(fact) if time is None or self._counts(fact) else None
        if named is not None:
            self._parts.note(f"the question names the time {named[0].name}.{named[1]}", _path(named[0]))
            return self._use(*named)
        if time is not None:
            return self._use(fact, time.column) if time.column in names else None
        if not times:
            return self._time_above(fact)
        if len(times) > 1:
            others = ", ".join(times[1:6])
            reason = f"the draft assumes the time {fact.name}.{times[0]}; it could also be one of {others}"
            self._parts.note(reason, _path(fact))
        return self._use(fact, times[0])

    def _counts(self, fact: Source) -> bool:
        """Return whether the measure of the draft counts rows of its fact."""
        expr = self._parts.query["measures"][0]
        measure = fact.measure(expr.rpartition(".")[2])
        return expr.startswith("count(") or (measure is not None and _aggregate(measure) == "count")

    def _named_time(self, fact: Source) -> tuple[Source, str] | None:
        """Return the time that the question names by a word of its own, such as `closed`, if there is one."""
        asked = set(self._words(self._asked))
        for _, name in self._reached(fact):
            source = self._model.sources.get(name)
            if source is None or not self._shown.has(source):
                continue
            about = {*self._words(fact.name), *self._words(name), *_TIME_WORDS}
            shown = {each.name for each in self._shown.columns(source)}
            words = {each: set(self._words(each)) - _TIME_WORDS for each in _times(source) if each in shown}
            named = [each for each, own in words.items() if own <= asked and own - about]
            if named:
                return (source, named[0]) if len(named) == 1 else None
        return None

    def _time_above(self, fact: Source) -> str | None:
        """Return the default time of the nearest source above a fact, or None if several are equally near."""
        nearest: list[tuple[int, Source, str]] = []
        for distance, name in self._reached(fact):
            source = self._model.sources.get(name)
            is_part = source is not None and set(self._words(source.name)) & set(self._words(fact.name))
            if source is None or not is_part or not self._shown.has(source):
                continue
            if nearest and distance > nearest[0][0]:
                break
            time = time_of(source, None)
            if time is not None and time.column in {each.name for each in self._shown.columns(source)}:
                nearest.append((distance, source, time.column))
        if len(nearest) != 1:
            return None
        _, source, column = nearest[0]
        self._parts.note(f"{fact.name} has no time of its own, so the draft uses {source.name}.{column}", _path(source))
        return self._use(source, column)

    def _use(self, source: Source, column: str) -> str:
        """Note that the draft reads a column, and return its full name."""
        self._parts.use(source.name, column)
        return f"{source.name}.{column}"

    def _time_range(self, fact: Source) -> dict[str, str] | None:
        """Return the time range of the question. If the query form cannot say it, a reason has what to pass."""
        found = period(self._text)
        if found is None:
            return None
        time = self._time(fact)
        if time is None:
            self._parts.unresolved += 0.4
            self._parts.note(f"{fact.name} has no time column for the period in the question", _path(fact))
            return None
        default = time_of(fact, None)
        is_default = default is not None and time == f"{fact.name}.{default.column}"
        field = {} if is_default else {"field": time}
        if re.search(r"\bfiscal|\bfy\s?\d", self._text):
            reason = "the draft uses the calendar year for the fiscal year; check when the fiscal year begins"
            self._parts.note(reason)
        if not found.range:
            dates = json.dumps(field | {"start": "YYYY-MM-DD", "end": "YYYY-MM-DD"})
            reason = f"the draft does not include the period of the question ({found.phrase}); "
            reason += f"add a time_range: {dates}, with the day after the period as the end"
            if found.last:
                reason += f"; {json.dumps({'last': found.last})} is the {found.last.partition(' ')[2]} up to today"
            self._parts.note(reason)
            return None
        if "last" in found.range:
            self._parts.note(f"{found.phrase}: the period up to and including today")
        return found.range | field

    def _conditions(self, fact: Source, expr: str) -> list[tuple[str, str]]:
        """Return the conditions for values and flags in the question, with their files.

        Words that name the measure or the fact are not conditions, such as `failed payments` for `failed_payment_rate`.
        """
        from ktx_cli.search import plain_words

        reached = [name for _, name in self._reached(fact)]
        words = plain_words(self._text)
        measure = fact.measure(expr.rpartition(".")[2])
        about = {*self._words(fact.name), *self._words(expr), *self._words(measure.filter or "" if measure else "")}
        for name in _other_names(measure) if measure else ():
            about.update(self._words(name) if set(self._words(name)) <= set(self._words(self._text)) else ())
        names = Counter(word for column in self._shown.columns(fact) for word in set(self._words(column.name)))
        found = bindings(words, self._words(self._text), self._tables, reached, self._words, self._find_values)
        bound: dict[tuple[str, str], str] = {}
        for condition in dict.fromkeys(found):
            column, _, value = condition.partition(" = ")
            own = self._words(value)
            literal = set(plain_words(value)) <= set(words) or len(value.strip("'")) <= 3
            literal = literal and set(own) != self._plain and not set(own) & set(self._negated)
            if literal and not set(own) & about and not any(names[word] for word in own):
                bound.setdefault((column.rpartition(".")[2], value), condition)
        done = [(each, each.partition(" = ")[0]) for each in bound.values()]
        done += [(f"{column} = true", column) for column in self._flags(fact, about)]
        for _, column in done:
            self._parts.use(*column.rpartition(".")[::2])
        return [(text, _path(self._model.sources[column.rpartition(".")[0]])) for text, column in done]

    def _flags(self, fact: Source, about: Collection[str]) -> Iterator[str]:
        """Yield the boolean columns of a fact whose whole name is in the question."""
        from ktx_cli.search import plain_words

        asked = set(self._words(self._asked))
        if {"not", "without", "no", "kein", "ohne"} & set(plain_words(self._text)):
            return
        for column in self._shown.columns(fact):
            words = [each for each in self._words(column.name) if each not in _FLAG_WORDS]
            if column.type.value == "boolean" and words and set(words) <= asked and not set(words) & set(about):
                yield f"{fact.name}.{column.name}"

    def _refusal(self, query: Mapping[str, Any]) -> str | None:
        """Return why the layer refuses a query, or None."""
        from ktx_cli.semantic import prepare

        plain = {key: value for key, value in query.items() if key != "connection"}
        try:
            prepare(self._model, plain, caller=self._caller, now=datetime.now(UTC), graph=self._graph, probed=False)
        except SemanticError as error:
            return error.message
        return None

    def _sql(self, fact: Source) -> str:
        """Return the start of a statement with the joins of a refused draft."""
        joins = []
        for name in self._parts.sources:
            if name == fact.name:
                continue
            try:
                path = self._graph.path(fact.name, (name,))
            except SemanticError:
                continue
            for edge in path.edges if path is not None else ():
                on = " AND ".join(f"{edge.source}.{own} = {edge.name}.{other}" for own, other in edge.pairs)
                joins.append(f"LEFT JOIN {_relation(self._model.sources[edge.target])} AS {edge.name} ON {on}")
        return " ".join((f"SELECT ... FROM {_relation(fact)} AS {fact.name}", *dict.fromkeys(joins)))


_MOST_LEFT: Final = 0.5
"""The maximum share of significant words that a draft may ignore."""
_TIME_WORDS: Final = frozenset({"date", "dat", "day", "time", "tim", "at", "on", "timestamp", "ts", "utc"})
_FLAG_WORDS: Final = frozenset({"is", "has", "was", "flag"})


def _aggregate(measure: Measure) -> str | None:
    """Return the aggregate of a measure in the terms of `_wanted`."""
    if AVERAGE.search(measure.name.replace("_", " ").casefold()):
        return "avg"
    expr = measure.expr.casefold().lstrip()
    if measure.percent_of is not None or "/" in expr or expr.startswith("avg(case"):
        return "share"
    for name in ("count", "avg", "sum"):
        if expr.startswith(f"{name}("):
            return name
    return None


def _is_grouped(source: Source) -> bool:
    """Whether the rows of a source are aggregated, according to its name or SQL."""
    return "_by_" in source.name or any("group" in line for line in source.lineage[:3])


_LOADS: Final = ("synced", "loaded", "updated", "modified", "changed", "deleted", "ingested", "extracted", "etl")
_LATER: Final = ("next", "due", "expected", "planned", "scheduled", "valid", "expir", "end", "until", "renew", "birth")
"""Parts of time column names that indicate loading times or future times."""


def _times(source: Source) -> list[str]:
    """Return the time columns of a source that could be its event time, most likely first."""
    times = [each for each in source.columns.values() if each.type.value == "time"]

    def rank(column: Column) -> tuple[bool, bool, bool]:
        name = column.name.casefold()
        return any(word in name for word in _LOADS), any(word in name for word in _LATER), not column.is_date

    return [each.name for each in sorted(times, key=rank)]


def _relation(source: Source) -> str:
    return ".".join(source.table) if source.table is not None else f"({source.name})"


def _other_names(entity: Measure | Column) -> tuple[str, ...]:
    """Return the label and the synonyms of a measure or a column."""
    return (*([entity.label] if entity.label else []), *entity.synonyms)


def _path(source: Source) -> str:
    return "" if source.place is None else source.place.path
