"""Drafts the semantic layer query for a question: measures, dimensions, times and filters.

The draft only matches words with names, and lists words without a match. If the semantic layer refuses the draft, the
result has the reason instead, and SQL with the correct joins to start with.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.semantic import NOT_SHOWN, SemanticError, time_of

if TYPE_CHECKING:
    from ktx_cli.search import FoundTable
    from ktx_cli.semantic import Caller, Column, Graph, Measure, Source, VisibleModel

_CANDIDATES: Final = 14
"""Number of the best sources to consider as the fact."""
_COUNTING: Final = re.compile(r"\b(?:how many|number of|count of|wie ?viele?|anzahl)\b")
_AVERAGE: Final = re.compile(r"\b(?:average|mean|avg|durchschnitt\w*|mittlere\w*)\b")
_SHARE: Final = re.compile(r"\b(?:share|percentage|percent|rate|ratio|proportion|anteil|quote)\b")
_AMOUNT: Final = re.compile(
    r"\b(?:how much|amount|value|total|sum|revenue|cost|costs|price|sales|turnover|spend|umsatz)\b"
)
_MONEY: Final = re.compile(
    r"\b(?:revenue|cost|costs|price|sales|turnover|spend|umsatz|amount|value|billed|paid|euros?|dollars?|expenses?|refunds?|money)\b"
)
_MONEY_WORDS: Final = (
    "amount total price revenue value cost costs spend sales turnover fee net gross balance paid credit debit"
)
_MONEY_NAMES: Final = frozenset(_MONEY_WORDS.split())
_BESIDE_MONEY: Final = frozenset(["tax", "discount", "quantity", "qty", "units", "count", "rate"])
_PIECES: Final = re.compile(r"\b(?:units?|quantity|pieces|items sold|stueck|menge)\b")
_PIECE_NAMES: Final = frozenset(["quantity", "qty", "units", "unit", "pieces", "volume", "count"])
_COUNTS: Final = 1.0
"""Score if the question counts the rows of a source."""
_BY_NAME: Final = 0.8
"""Score for a measure whose whole name is in the question."""
_GROUPED: Final = 0.6
"""Penalty for a source with grouped rows if the question is about a number of things."""
_HIGHEST: Final = re.compile(r"\b(?:largest|biggest|highest|most|top|best|meisten?|groesste\w*|best-selling)\b")
_CUT: Final = re.compile(
    r"(?:,|\s)\s*(?:by|per|for each|in each|of each|for every|in every|each|broken down by|split by|grouped by"
    r"|je|pro|nach)\s+(.+)$"
)
_WHICH: Final = re.compile(
    r"\b(?:which|what|welche[rsn]?)\s+(.+?)\s+(?:brings?|has|have|had|do|does|is|are|gets?|makes?|sells?)\b"
)
_TIMES: Final = re.compile(
    r"\b(?:in|during|since|for|of)?\s*(?:the\s+)?(?:fiscal year\s+|year\s+|financial year\s+)?(?:19|20)\d\d\b"
    r"|\b(?:in|over|during)?\s*(?:the\s+)?(?:this|current|last|past|previous)\s+\d*\s*(?:day|week|month|quarter|year)s?\b"
)
_BESIDE: Final = re.compile(
    r",|&|\b(?:and|und|vs|versus|compared (?:to|with)|(?:along |together )?with(?: the| its)?)\b"
)
"""What separates several measures, or several dimensions."""
_RANKED: Final = re.compile(
    r"(?P<start>.*?)\b(?:(?:top|best|highest|largest|biggest)\s+(?P<count>\d+\s+)?(?P<things>[^,]+?)"
    r"|which\s+(?P<which>[^,]+?)(?:\s+(?:sells?|sold|ranks?|ranked|performs?|performed|are|is))?"
    r"\s+(?:the\s+)?(?:best|most|highest|top))\s+by\s+(?P<value>[^,]+)",
    re.IGNORECASE,
)
_VALUES: Final = re.compile(r"(?:number of|total|average)\b")
_ADDED: Final = (_MONEY, _AMOUNT, _PIECES, _SHARE, re.compile(r"\bcount\b"))
"""Last words of the names of numbers."""
_COUNTED: Final = re.compile(
    r"\b(?:how many|number of|count of|wie ?viele?|anzahl(?: der)?)\s+(.+?)"
    r"(?:\s+(?:did|do|does|have|has|had|were|was|are|is|came|began|joined|started|of our|haben|gibt|sind|wurden)\b|$)"
)
_OBJECT: Final = re.compile(
    r"\b(?:amount|value|costs?|total|sum|revenue|price|average|turnover|sales|spend|rate|share)\b[^,]*?"
    r"\b(?:of|from|for)\s+(?:the|our|all|an?)?\s*(.+?)(?:\s+(?:that|which|in|we)\b|$)"
)
_BUYING: Final = frozenset({"supplier", "vendor", "purchas", "procurement", "po", "creditor"})
_SELLERS: Final = frozenset({"supplier", "vendor", "creditor", "po", "procurement"})
_BOUGHT: Final = 0.9
"""Penalty for a source about purchasing if the question is about something else."""
_YEAR: Final = re.compile(r"\b((?:19|20)\d\d)\b")
_MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_LAST: Final = re.compile(r"\b(?:last|past|previous)\s+(\d+)\s+(day|week|month|quarter|year)s?\b")
_GRAIN: Final = re.compile(
    r"\b(day|daily|week|weekly|month|monthly|quarter|quarterly|year|yearly|tag|woche|monat|quartal|jahr)\b"
)
_GRAINS: Final = {
    "daily": "day",
    "weekly": "week",
    "monthly": "month",
    "quarterly": "quarter",
    "yearly": "year",
    "tag": "day",
    "woche": "week",
    "monat": "month",
    "quartal": "quarter",
    "jahr": "year",
}
_SUMMED: Final = re.compile(r"\s*sum\s*\(\s*(\w+)\s*\)\s*", re.IGNORECASE)
_TRIED: Final = 5
"""Number of facts to try for the dimensions of the question."""
_UNRESOLVED: Final = 0.9
"""Penalty for a dimension that a fact does not reach."""
_REFUSED: Final = 0.6
"""The maximum score by which an accepted draft may be worse than a refused one that it replaces."""
_ENTITY: Final = 0.8
"""Score if a source is about the subject of the question."""
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


def by_value(question: str) -> str:
    """Return a question for things ranked by a number with the number first, as in other questions.

    `top 5 customers by net revenue` is `top 5 net revenue by customers`; `top 5 products by category` is unchanged.
    """
    found = _RANKED.match(question)
    value = _TIMES.sub(" ", found["value"]).strip(" ?.!") if found else ""
    words = value.replace("_", " ").casefold()
    if found is None or not (_VALUES.match(words) or any(kind.search(words.rpartition(" ")[2]) for kind in _ADDED)):
        return question
    times = " ".join(each[0].strip() for each in _TIMES.finditer(found["value"]))
    ranked = f"{found['start']}top {found['count'] or ''}{value} by {found['things'] or found['which']}"
    return f"{ranked} {times}{question[found.end() :]}".strip()


def measured_part(question: str) -> str:
    """Return the part of a question about the measure: without dimensions, times and parentheses."""
    text = re.sub(r"\([^)]*\)", " ", by_value(question))
    cut = _CUT.search(text)
    text = text[: cut.start()] if cut else text
    return _TIMES.sub(" ", text).strip(" ?.!,") or question


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
        self._shows_values = find_values is not None
        self._find_values: FindValues = find_values or (lambda text: ())
        self._text = folded(re.sub(r"\([^)]*\)", " ", by_value(question))).strip().rstrip("?.! ")
        self._parts: _Parts
        cut = _CUT.search(self._text)
        self._cut = cut[1] if cut else ""
        self._asked = folded(measured_part(question))
        self._noun = self._counted_noun()
        of = _OBJECT.search(self._asked)
        self._object = self._words(of[1]) if of and not self._noun else []
        """The stems of the subject of an amount, such as `ads` in `the cost of our ads`."""
        self._common = self._common_words()

    def _words(self, text: str) -> list[str]:
        """Return the stems of the significant words of a text."""
        from ktx_cli.search import is_stop_word, plain_words, stem

        return [stem(each) for each in plain_words(text) if not is_stop_word(each)]

    def _counted_noun(self) -> list[str]:
        """Return the stems of the counted noun, such as `support tickets` in `How many support tickets were there`."""
        found = _COUNTED.search(self._asked)
        return self._words(found[1]) if found else []

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
        for total, fact, expr, why, path in self._measures():
            best = max((score for score, _ in found.values()), default=total)
            if fact.name not in found and len(found) < _TRIED and total > best - _REFUSED:
                parts = self._parts_of(fact, expr, why, path)
                found[fact.name] = (total - _UNRESOLVED * parts.unresolved, parts)
        ranked = sorted(found.values(), key=lambda each: -each[0])
        drafts = (self._drafted(parts) for score, parts in ranked if score > ranked[0][0] - _REFUSED)
        first = next(drafts, None)
        return first if first is None or first.query is not None else next((x for x in drafts if x.query), first)

    def _parts_of(self, fact: Source, expr: str, why: str, path: str) -> _Parts:
        """Return the parts of the draft for a fact."""
        self._parts = parts = _Parts(fact)
        parts.use(fact.name)
        parts.reasons.append((why, path))
        parts.query = {"connection": self._model.connection, "measures": [expr]}
        several = _BESIDE.split(self._asked)
        for each in several if len(several) > 1 else ():
            self._add_measure(fact, self._measure_for(fact, each, words=2), each.strip())
        dimensions = list(self._dimensions(fact))
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
        if _HIGHEST.search(self._text) and dimensions and "(" not in expr:
            parts.query["order_by"] = [f"{expr} desc"]
        return parts

    def _doubt(self, parts: _Parts) -> str | None:
        """Return the reason to reject a draft, or None. Words that the draft ignores are added to its reasons."""
        expr = parts.query["measures"][0]
        measure = parts.fact.measure(expr.rpartition(".")[2]) if "(" not in expr else None
        wanted = self._wanted()
        if measure is not None and wanted in ("avg", "share") and _aggregate(measure) not in (wanted, None):
            kind = "an average" if wanted == "avg" else "a share"
            return f"the question asks for {kind}, but no matching measure computes one; {expr} is the nearest"
        used = f"{expr} {json.dumps(parts.query)} {parts.fact.name} {parts.fact.description or ''} {self._cut}"
        used += f" {measure.description or ''} {measure.filter or ''}" if measure is not None else ""
        used += " ".join(parts.columns.get(parts.fact.name, ()))
        left = self._left_out(used)
        if left:
            words = ", ".join(f"`{each}`" for each in left[:6])
            parts.reasons.append((f"not in the draft: {words}; find out what they mean before you run the query", ""))
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
            and stem(word) not in _FILLERS | _REQUESTED
            and word not in _MONTHS
        ]

    def _left_out(self, used: str) -> list[str]:
        """Return the significant words that no part of a draft covers."""
        from ktx_cli.search import alternatives, stem

        stems = set(self._words(used))
        return [word for word in self._telling() if not _alike(stem(word), stems) and not stems & {*alternatives(word)}]

    def _drafted(self, parts: _Parts) -> Draft:
        self._parts = parts
        refused = self._doubt(parts) or self._refusal(parts.query)
        if refused is not None and "filters" in parts.query:  # an unfiltered measure is better than no draft
            without = {key: value for key, value in parts.query.items() if key != "filters"}
            if self._refusal(without) is None:
                left = "; ".join(parts.query["filters"])
                parts.reasons.append((f"omitted, because the semantic layer refuses it: {left} ({refused})", ""))
                parts.query, refused = without, None
        reasons = [*parts.reasons]
        if refused is not None:
            reasons.append((f"no draft: {refused}", ""))
        return Draft(
            connection=self._model.connection,
            query=parts.query if refused is None else None,
            reasons=tuple(reasons),
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
        wanted = self._wanted()
        words = self._words(self._asked)
        about = [*self._words(source.name), *self._words(source.description or "")]
        for measure in self._shown.measures(source):
            named = self._fit(words, self._words(measure.name), about)
            described = self._fit(words, self._words(measure.description or ""), about)
            own = self._words(measure.name)
            if set(own) <= set(words) and len(own) > 1 - (not set(own) & set(about)):
                named += 2 * _BY_NAME if set(own) == set(words) and len(own) > 1 else _BY_NAME
            how = _aggregate(measure)
            kind = 0.35 if how == wanted else -0.25 if wanted and how else 0.0
            kind -= 0.4 * (wanted in ("sum", "avg") and how == "count")
            summed = _SUMMED.fullmatch(measure.expr)
            if wanted == "avg" and how == "sum" and summed and source.column(summed[1]) in self._shown.columns(source):
                about_it = f"the average of the values that {source.name}.{measure.name} adds up"
                money = 0.3 * self._is_of_money(measure)
                score = named + 0.3 + money + (0.3 if table.members.get(measure.name) else 0.0)
                yield score, f"avg({source.name}.{summed[1]})", about_it, _path(source)
            known = -0.1 if measure.is_proposed else 0.15
            found = 0.3 if table.members.get(measure.name) else 0.0
            if wanted in ("sum", "avg"):
                kind += 0.3 * (self._is_of_pieces(measure) or self._is_of_money(measure))
            elif wanted == "count":
                counts_rows = measure.expr.replace(" ", "").casefold() == "count(*)"
                kind += _COUNTS * self._is_counted(source) if counts_rows else -0.3
                kind -= _GROUPED * _is_grouped(source)
            expr = measure.expr if self._shown.can_show(source, measure.expr) else NOT_SHOWN
            why = f"{source.name}.{measure.name}: {measure.description or expr}"
            why += " (proposed, not reviewed)" if measure.is_proposed else ""
            place = measure.place.path if measure.place is not None else _path(source)
            yield named + 0.3 * described + kind + known + found, f"{source.name}.{measure.name}", why, place
        if wanted == "count" and _is_grouped(source):
            return
        if wanted == "count":
            names = [each.name for each in self._shown.columns(source)]
            key = source.grain[0] if source.keyed and len(source.grain) == 1 and source.grain[0] in names else None
            if not names:
                return
            expr = f"count(distinct {source.name}.{key})" if key else f"count({source.name}.{names[0]})"
            fit = self._fit(words, self._words(source.name), about)
            yield (
                0.1 + fit + _COUNTS * self._is_counted(source),
                expr,
                f"no measure counts {source.name}, so the draft counts its rows by their key",
                _path(source),
            )
            return
        for column in self._shown.columns(source):
            if column.type.value != "number" or column.name in source.grain or column.name.endswith("_id"):
                continue
            fit = self._fit(words, self._words(column.name), about)
            if fit > 0:
                how = "avg" if wanted == "avg" else "sum"
                yield (
                    fit,
                    f"{how}({source.name}.{column.name})",
                    f"no measure matches better than the column {source.name}.{column.name}",
                    _path(source),
                )

    def _is_of_pieces(self, measure: Measure) -> float:
        """Return 1 if the question is about quantities and so is the measure, -1 if the measure is not, or 0."""
        if not _PIECES.search(self._text):
            return 0.0
        words = set(re.split(r"[^a-z]+", f"{measure.name} {measure.expr}".casefold()))
        return 1.0 if words & _PIECE_NAMES and not words & _MONEY_NAMES - {"total"} else -1.0

    def _is_of_money(self, measure: Measure) -> float:
        """Return 1 if the question is about money and so is the measure, -1 if the measure is not, or 0."""
        if not _MONEY.search(self._text):
            return 0.0
        words = set(re.split(r"[^a-z]+", f"{measure.name} {measure.expr}".casefold()))
        return 1.0 if words & _MONEY_NAMES and not words & _BESIDE_MONEY else -1.0

    def _wanted(self) -> str | None:
        """Return the aggregate that the question asks for."""
        if _COUNTING.search(self._text):
            return "sum" if re.search(r"\b(?:units|number of units|hours|minutes)\b", self._text) else "count"
        if _AVERAGE.search(self._text):
            return "avg"
        if _SHARE.search(self._text):
            return "share"
        return "sum" if _AMOUNT.search(self._text) else None

    def _fit(self, words: Sequence[str], name: Sequence[str], about: Sequence[str]) -> float:
        """Return how well a name matches the question, from 0 to about 1.5 including the subject of the source."""
        from ktx_cli.search import alternatives

        if not name:
            return 0.0
        asked = set(words)
        related = {other for word in words for other in alternatives(word)}
        own = [each for each in name if each not in about and each not in _FILLERS]
        shared = (
            sum(_alike(each, asked) or 0.7 * (each in related) for each in own) / len(own)
            if own
            else 0.5 * bool(asked & set(about))
        )
        covered = sum(1 for each in asked if each in set(name) | set(about)) / (len(asked) or 1)
        return shared + 0.5 * covered

    def _dimensions(self, fact: Source) -> Iterator[Any]:
        phrase = self._cut
        if not phrase:
            which = _WHICH.search(self._text)
            phrase = which[1] if which else ""
        for part in _BESIDE.split(phrase):
            text = _TIMES.sub(" ", part).strip()
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
            grain = _GRAIN.search(text)
            name = self._time(fact)
            if grain and name is not None:
                word = _GRAINS.get(grain[1], grain[1])
                word = f"fiscal_{word}" if "fiscal" in text and word in ("year", "quarter") else word
                self._parts.use(fact.name, name)
                self._parts.reasons.append((f"by {text}: {fact.name}.{name}, truncated to {word}", _path(fact)))
                yield {"field": f"{fact.name}.{name}", "granularity": word}
                continue
            if found is None:
                self._parts.unresolved += 1
                self._parts.reasons.append(
                    (f"by {text}: no column of {fact.name} or its joined sources has a matching name", "")
                )
                continue
            source, column = found
            self._parts.use(source.name, column.name)
            self._parts.reasons.append((f"by {text}: {source.name}.{column.name}", _path(source)))
            yield f"{source.name}.{column.name}"

    def _measure_for(self, fact: Source, text: str, words: int) -> str | None:
        """Return the measure of a fact whose whole name, of at least so many words, is in a phrase; the longest one."""
        asked = set(self._words(text.replace("_", " ")))
        named = [(each, self._words(each.name.replace("_", " "))) for each in self._shown.measures(fact)]
        fitting = [(len(own), not each.is_proposed, each.name) for each, own in named if set(own) <= asked]
        fitting = [each for each in fitting if each[0] >= words]
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
            self._parts.reasons.append((f"{text}: {expr}", _path(fact)))

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
                own = self._words(column.name)
                direct = sum(1 for word in words if _alike(word, set(own)))
                if not direct:
                    continue
                context = sum(1 for word in words if word in about and not _alike(word, set(own)))
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

        If other columns could be meant, a reason of the draft lists them.
        """
        names = {each.name for each in self._shown.columns(fact)}
        time = time_of(fact, None)
        if time is not None:
            return time.column if time.column in names else None
        times = [each for each in _times(fact) if each in names]
        if len(times) > 1:
            others = ", ".join(times[1:6])
            reason = f"the draft assumes the time {fact.name}.{times[0]}; it could also be one of {others}"
            if (reason, _path(fact)) not in self._parts.reasons:
                self._parts.reasons.append((reason, _path(fact)))
        return times[0] if times else None

    def _time_range(self, fact: Source) -> dict[str, str] | None:
        name = self._time(fact)
        found = _period(self._text)
        if found is None:
            return None
        if name is None:
            self._parts.unresolved += 0.4
            self._parts.reasons.append((f"{fact.name} has no time column for the period in the question", _path(fact)))
            return None
        self._parts.use(fact.name, name)
        if "fiscal" in self._text:
            reason = "the draft uses the calendar year for the fiscal year; check when the fiscal year begins"
            self._parts.reasons.append((reason, ""))
        if found == _UNREAD:
            self._parts.reasons.append(("the draft does not include the period of the question; add a time_range", ""))
            return None
        only = time_of(fact, None) is not None
        return found if only else found | {"field": f"{fact.name}.{name}"}

    def _conditions(self, fact: Source, expr: str) -> list[tuple[str, str]]:
        """Return the conditions for values and flags in the question, with their files.

        Words that name the measure or the fact are not conditions, such as `failed payments` for `failed_payment_rate`.
        """
        from ktx_cli.search import plain_words

        reached = [name for _, name in self._reached(fact)]
        words = plain_words(self._text)
        measure = fact.measure(expr.rpartition(".")[2])
        about = {*self._words(fact.name), *self._words(expr), *self._words(measure.filter or "" if measure else "")}
        names = Counter(word for column in self._shown.columns(fact) for word in set(self._words(column.name)))
        found = bindings(words, self._words(self._text), self._tables, reached, self._words, self._find_values)
        bound: dict[tuple[str, str], str] = {}
        for condition in dict.fromkeys(found):
            column, _, value = condition.partition(" = ")
            own = self._words(value)
            literal = set(plain_words(value)) <= set(words) or len(value.strip("'")) <= 3
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
_REQUEST_WORDS: Final = (
    "many much show list give tell compar differ percentag percent share ratio proport often get come in overall "
    "vs versus top"
)
_REQUESTED: Final = frozenset(_REQUEST_WORDS.split())
_FLAG_WORDS: Final = frozenset({"is", "has", "was", "flag"})
_FILLER_WORDS: Final = "value valu total sum count number averag avg rate distinct the row of amount"
_FILLERS: Final = frozenset(_FILLER_WORDS.split())


def _alike(word: str, asked: Iterable[str]) -> bool:
    """Whether a stem equals one of the others, or shares a prefix or suffix of at least four letters with it."""
    return any(
        word == each
        or (len(each) >= 4 and (word.startswith(each) or word.endswith(each)))
        or (len(word) >= 4 and (each.startswith(word) or each.endswith(word)))
        for each in asked
    )


def _aggregate(measure: Measure) -> str | None:
    """Return the aggregate of a measure in the terms of `_wanted`."""
    if _AVERAGE.search(measure.name.replace("_", " ").casefold()):
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


_UNREAD: Final[dict[str, str]] = {"": ""}
"""Marks a period in the question that could not be parsed."""
_RELATIVE: Final = re.compile(
    r"\b(?:this|last|previous|current|next|dieses?|letzte[rns]?)\s+(?:day|week|month|quarter|year|jahr|monat|quartal|woche)"
    r"|\b(?:today|yesterday|ytd|year to date|between|until|before|after|q[1-4]|heute|gestern)\b"
)


_DAYS: Final = re.compile(r"\b(?:between|until|before|after)\b|\b\d{1,2}(?:st|nd|rd|th)?\s+(?:of\s+)?[a-z]{3,9}\s+20")
"""Words that change the meaning of a year, quarter or month."""


def _period(text: str) -> dict[str, str] | None:
    """Return the time range in a question, or `_UNREAD` if it contains one that cannot be parsed."""
    last = _LAST.search(text)
    if last:
        return {"last": f"{last[1]} {last[2]}s"}
    years = [int(each) for each in _YEAR.findall(text)]
    months = [number for number, name in enumerate(_MONTHS, 1) if re.search(rf"\b{name}\b", text)]
    quarter = re.search(r"\bq([1-4])\b", text)
    if len(years) == 1 and not _DAYS.search(text):
        found = {"start": f"{years[0]}-01-01", "end": f"{years[0] + 1}-01-01"}
        if len(months) == 1:
            found = _months(years[0], months[0], 1)
        elif quarter and not months:
            found = _months(years[0], 3 * int(quarter[1]) - 2, 3)
        elif months:
            return _UNREAD
        if re.search(r"\b(?:since|from|seit|ab)\b", text):
            found.pop("end")
        return found
    if len(years) > 1 and not months and not re.search(r"\b(?:before|after|compared?|versus|vs)\b", text):
        return {"start": f"{min(years)}-01-01", "end": f"{max(years) + 1}-01-01"}
    return _UNREAD if years or _RELATIVE.search(text) else None


def _months(year: int, first: int, count: int) -> dict[str, str]:
    after = first + count
    return {"start": f"{year}-{first:02}-01", "end": f"{year + (after > 12)}-{(after - 1) % 12 + 1:02}-01"}


def _relation(source: Source) -> str:
    return ".".join(source.table) if source.table is not None else f"({source.name})"


def _path(source: Source) -> str:
    return "" if source.place is None else source.place.path


_COUNTRIES: Final = """
argentina argentinien AR ARG|australia australien AU AUS|austria osterreich AT AUT|belgium belgien BE BEL
brazil brasilien BR BRA|bulgaria bulgarien BG BGR|canada kanada CA CAN|chile CL CHL|china CN CHN
colombia kolumbien CO COL
croatia kroatien HR HRV|czechia tschechien CZ CZE|denmark danemark DK DNK|egypt agypten EG EGY|estonia estland EE EST
finland finnland FI FIN|france frankreich FR FRA|germany deutschland DE DEU|greece griechenland GR GRC
hungary ungarn HU HUN|iceland island IS ISL|india indien IN IND|indonesia indonesien ID IDN|ireland irland IE IRL
israel IL ISR|italy italien IT ITA|japan JP JPN|kenya kenia KE KEN|latvia lettland LV LVA|lithuania litauen LT LTU
luxembourg luxemburg LU LUX|malaysia MY MYS|malta MT MLT|mexico mexiko MX MEX|morocco marokko MA MAR
netherlands holland niederlande NL NLD|nigeria NG NGA|norway norwegen NO NOR|pakistan PK PAK|peru PE PER
philippines philippinen PH PHL|poland polen PL POL|portugal PT PRT|romania rumanien RO ROU|serbia serbien RS SRB
singapore singapur SG SGP|slovakia slowakei SK SVK|slovenia slowenien SI SVN|spain spanien ES ESP
sweden schweden SE SWE|switzerland schweiz CH CHE|taiwan TW TWN|thailand TH THA|turkey turkei TR TUR|ukraine UA UKR
vietnam VN VNM|usa america amerika US USA|britain uk england GB GBR
"""
"""Country names in English and German in lower case without accents, followed by their ISO 3166 codes."""

_CODES: Final = {
    name: tuple(codes)
    for entry in _COUNTRIES.replace("\n", "|").split("|")
    if entry
    for *names, short, long in [entry.split()]
    for codes in [(short, long)]
    for name in names
}

FindValues = Callable[[str], Sequence[str]]
"""Takes a text and returns conditions for values that contain it, such as `customers.country = 'NO'`."""


def bindings(
    words: Collection[str], stems: Collection[str], tables: Sequence[FoundTable], reached: Collection[str],
    stems_of: Callable[[str], list[str]], find: FindValues,
) -> Iterator[str]:  # fmt: skip
    """Yield conditions for the values in a question, in sources that its fact reaches.

    `words` are the folded words of the question, and `stems` their stems. A value matches if the question contains it
    in full, or if it is the code of a country in the question.
    """
    for table in tables:
        if table.name not in reached:
            continue
        for condition in sorted(table.values, key=lambda each: (-table.values[each], each)):
            column, _, value = condition.partition(" = ")
            own = stems_of(value)
            if own and set(own) <= set(stems) and not set(own) <= set(stems_of(column)):
                yield condition
                break
    for word in words:
        for code in _CODES.get(word, ()):
            conditions = (each for each in find(code) if _is_of(each, code, reached))
            bound = next(conditions, None)
            if bound is not None:
                yield bound
                break


def _is_of(condition: str, code: str, reached: Collection[str]) -> bool:
    column, _, value = condition.partition(" = ")
    return value.strip("'").upper() == code and column.rpartition(".")[0] in reached
