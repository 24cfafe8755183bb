"""Search in a shared index: the documents of one tree, found and ranked by Postgres."""

from __future__ import annotations

import bisect
import functools
import hashlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.project import stored_text
from ktx_cli.search.corpus import KINDS, WORTH, Scope
from ktx_cli.search.shared_session import SearchSession, compares_vectors, vector_schema
from ktx_cli.search.stems import stem
from ktx_cli.search.store import KIND_BITS, MOST_SPELLINGS, Row

_K1, _B = 1.2, 0.75
"""The constants of BM25 in FTS5, so that both kinds of index select the same documents for the ranking."""
_LEAST_IDF: Final = 1e-6
_LONGEST_STEM: Final = 500
"""Bytes of a stem above which its hash is stored."""
_ROW: Final = "d.id, d.kind, d.name, d.connection, d.owner, d.place, d.length, d.worth"
_FACTS: Final = 8
_IS_INTERNAL, _IS_OWNED = 1, 2
"""The bits of `postings.flags`."""


def key_of(stem: str) -> str:
    """Return a stem as it is stored: a stem that is too long for an index is stored as its hash."""
    if len(stem) * 4 <= _LONGEST_STEM or len(stem.encode()) <= _LONGEST_STEM:
        return stem
    return "\ue003" + hashlib.sha256(stem.encode()).hexdigest()


def is_long(word: str) -> bool:
    """Return whether a word is too long to be completed or corrected."""
    return key_of(word) != word


def flags_of(*, internal: bool, owned: bool) -> int:
    """Return the value of `postings.flags` for a document."""
    return internal * _IS_INTERNAL + owned * _IS_OWNED


@dataclass(frozen=True, slots=True)
class TreeParts:
    """The parts of a tree: those of its root, without the parts `gone`, and the parts `added`."""

    root: int
    added: list[int]
    gone: list[int]

    def contain(self, column: str) -> str:
        """Return the SQL for whether a column is a part of the tree, with the parameters of `values`."""
        of_root = "SELECT part FROM {p}root_parts WHERE root = %(root)s"
        if not self.added and not self.gone:
            return f"{column} IN ({of_root})"
        gone = "part <> ALL(%(gone)s::int[])"
        return f"{column} IN ({of_root} AND {gone} UNION ALL SELECT unnest(%(added)s::int[]))"

    @property
    def values(self) -> dict[str, Any]:
        """The parameters of `contain`."""
        return {"root": self.root, "added": self.added, "gone": self.gone}


def parts_of(session: SearchSession, tree: int) -> TreeParts:
    """Return the parts of a tree, which has none if it does not exist."""
    rows = session.ask("SELECT root, added, gone FROM {p}trees WHERE id = %s", (tree,))
    return TreeParts(*rows[0]) if rows else TreeParts(tree, [], [])


@dataclass(frozen=True, slots=True)
class _Difference:
    """How the counts of a tree differ from those of its root.

    `terms`: more documents with a stem, and more with it in a column that searches look in. `new`, `gone`: the words
    that only one of the two has, sorted, in both directions of writing.
    """

    terms: Mapping[str, tuple[int, int]]
    new: Mapping[str, Sequence[str]]
    gone: Mapping[str, Sequence[str]]


_OTHER_TERMS: Final = """
    SELECT stem, sum(sign), coalesce(sum(sign) FILTER (WHERE amount > 0), 0) FROM (
        SELECT stem, amount, CASE WHEN part = ANY(%(added)s::int[]) THEN 1 ELSE -1 END AS sign
        FROM {p}postings WHERE part = ANY(%(added)s::int[] || %(gone)s::int[])) AS s
    GROUP BY stem HAVING sum(sign) <> 0 OR sum(sign) FILTER (WHERE amount > 0) <> 0
"""
_OTHER_WORDS: Final = """
    SELECT d.word, r.parts IS NULL FROM (
        SELECT w.word, sum(CASE WHEN p.id = ANY(%(added)s::int[]) THEN 1 ELSE -1 END) AS more
        FROM {p}parts AS p, unnest(p.words) AS w (word)
        WHERE p.id = ANY(%(added)s::int[] || %(gone)s::int[]) GROUP BY w.word) AS d
    LEFT JOIN {p}words AS r ON r.root = %(root)s AND r.word = d.word
    WHERE r.parts IS NULL AND d.more > 0 OR r.parts + d.more <= 0
"""


class _Statistics:
    """The counts of a tree, which are read when they are needed. All copies of a store share them."""

    def __init__(self, session: SearchSession, tree: int) -> None:
        self._session = session
        self._tree = tree
        self._known: dict[str, tuple[int, int]] = {}

    @functools.cached_property
    def facts(self) -> tuple[TreeParts, int, int, Mapping[str, tuple[int, float]]]:
        """The parts, the number of documents, their total number of stems, and both for each kind."""
        query = "SELECT root, added, gone, documents, size, totals FROM {p}trees WHERE id = %s"
        rows = self._session.ask(query, (self._tree,))
        root, added, gone, documents, size, totals = rows[0] if rows else (self._tree, [], [], 0, 0, {})
        lengths = {kind: (number, float(length)) for kind, (number, length) in totals.items()}
        return TreeParts(root, added, gone), documents, size, lengths

    @functools.cached_property
    def difference(self) -> _Difference:
        """How the counts differ from those of the root."""
        parts = self.facts[0]
        if not parts.added and not parts.gone:
            nothing: dict[str, Sequence[str]] = {"word": (), "backwards": ()}
            return _Difference({}, nothing, nothing)
        terms = {key: (docs, found) for key, docs, found in self._session.ask(_OTHER_TERMS, parts.values)}
        words: dict[bool, list[str]] = {True: [], False: []}
        for word, is_new in self._session.ask(_OTHER_WORDS, parts.values):
            words[is_new].append(word)
        new, gone = (
            {"word": sorted(words[is_new]), "backwards": sorted(word[::-1] for word in words[is_new])}
            for is_new in (True, False)
        )
        return _Difference(terms, new, gone)

    def prepare(self, terms: Iterable[str]) -> None:
        """Read the counts of stems, unless they are known."""
        unknown = [key for key in set(map(key_of, terms)) if key not in self._known]
        if unknown:
            query = "SELECT stem, docs, found FROM {p}terms WHERE root = %s AND stem = ANY(%s)"
            rows = self._session.ask(query, (self.facts[0].root, unknown))
            of_root = {key: (docs, found) for key, docs, found in rows}
            self.learn((key, *of_root.get(key, (0, 0))) for key in unknown)

    def learn(self, rows: Iterable[tuple[str, int, int]]) -> None:
        """Keep the counts of stems, given those of the root."""
        more = self.difference.terms
        for key, docs, found in rows:
            more_docs, more_found = more.get(key, (0, 0))
            self._known[key] = (docs + more_docs, found + more_found)

    def counts(self, key: str) -> tuple[int, int]:
        """Return the counts of a stem that is known."""
        return self._known[key]


def _between(words: Sequence[str], begun: str) -> Sequence[str]:
    """Return the words with a prefix. `words` are sorted."""
    return words[bisect.bisect_left(words, begun) : bisect.bisect_left(words, begun + "\U0010ffff")]


def _written(column: str, words: Sequence[str]) -> list[str]:
    """Return words forwards, given in the direction of a column."""
    return [word[::-1] for word in words] if column == "backwards" else list(words)


class SharedStore:
    """The documents of one tree in a shared index, without the documents `removed`.

    It is immutable, because a tree is never changed, and safe for several threads.
    """

    def __init__(self, session: SearchSession, tree: int, removed: Collection[int] = ()) -> None:
        self.session = session
        self.tree = tree
        self.removed = frozenset(removed)
        self._statistics = _Statistics(session, tree)

    def without(self, removed: Collection[int]) -> SharedStore:
        """Return a copy that excludes further documents."""
        if not removed:
            return self
        copy = SharedStore(self.session, self.tree, self.removed.union(removed))
        copy._statistics = self._statistics
        return copy

    @property
    def _tree_parts(self) -> TreeParts:
        return self._statistics.facts[0]

    @functools.cached_property
    def _parts(self) -> Mapping[str, dict[str, tuple[int, str]]]:
        """The parts of each unit: name -> (number, digest)."""
        found: dict[str, dict[str, tuple[int, str]]] = {}
        query = f"SELECT p.unit, p.name, p.id, p.digest FROM {{p}}parts AS p WHERE {self._tree_parts.contain('p.id')}"
        for unit, name, number, digest in self.session.ask(query, self._tree_parts.values):
            found.setdefault(unit, {})[name] = (number, digest)
        return found

    def parts(self, unit: str) -> dict[str, str]:
        """See `IndexStore`."""
        return {name: digest for name, (_, digest) in self._parts.get(unit, {}).items()}

    def of_part(self, unit: str, name: str) -> dict[bytes, int]:
        """See `IndexStore`."""
        part = self._parts.get(unit, {}).get(name)
        if part is None:
            return {}
        rows = self.session.ask("SELECT digest, id FROM {p}docs WHERE part = %s", (part[0],))
        return {bytes(digest): number for digest, number in rows if number not in self.removed}

    @property
    def count(self) -> int:
        """The number of documents."""
        return self._statistics.facts[1]

    @property
    def lengths(self) -> Mapping[str, tuple[int, float]]:
        """The number of documents and their total weighted length in words, for each kind."""
        return self._statistics.facts[3]

    def prepare(self, terms: Iterable[str]) -> None:
        """See `IndexStore`."""
        self._statistics.prepare(terms)

    def having(self, term: str) -> int:
        """See `IndexStore`."""
        self.prepare([term])
        return self._statistics.counts(key_of(term))[0]

    def begun(self, word: str) -> list[str]:
        """See `IndexStore`."""
        return self._spelled("word", word, 0, MOST_SPELLINGS)

    def containing(self, part: str, most: int) -> list[str]:
        """See `IndexStore`."""
        ends = self._spelled("backwards", part[::-1], len(part) + 2, most)
        return [*self._spelled("word", part, len(part) + 2, most), *ends]

    def _spelled(self, column: str, begun: str, shortest: int, most: int) -> list[str]:
        words, values = self._words(column, begun)
        rows = self.session.ask(
            "SELECT s.stem, coalesce(t.docs, 0), coalesce(t.found, 0) FROM (SELECT stem, min(length(word)) AS shortest"
            f" FROM ({words}) AS w WHERE length(word) >= %(shortest)s GROUP BY stem ORDER BY shortest, stem"
            " LIMIT %(most)s) AS s LEFT JOIN {p}terms AS t ON t.root = %(root)s AND t.stem = s.stem"
            " ORDER BY s.shortest, s.stem",
            {**values, "shortest": shortest, "most": most},
        )
        self._statistics.learn(rows)
        return [key for key, _, _ in rows]

    def _words(self, column: str, begun: str) -> tuple[str, dict[str, Any]]:
        """Return the SQL for the words of the tree, with their stems, that begin or end in a way, and its values."""
        difference = self._statistics.difference
        values = {"root": self._tree_parts.root, "low": begun, "high": begun + "\U0010ffff"}
        sql = f"SELECT word, stem FROM {{p}}words WHERE root = %(root)s AND {column} >= %(low)s AND {column} < %(high)s"
        if gone := _written(column, _between(difference.gone[column], begun)):
            sql += " AND word <> ALL(%(gone)s::text[])"
            values["gone"] = gone
        if new := _written(column, _between(difference.new[column], begun)):
            own = 'word COLLATE "C", stem COLLATE "C"'
            sql += f" UNION ALL SELECT {own} FROM unnest(%(new)s::text[], %(stems)s::text[]) AS own (word, stem)"
            values |= {"new": new, "stems": list(map(stem, new))}
        return sql, values

    def alike(self, word: str) -> dict[str, str]:
        """See `IndexStore`."""
        third = max(1, len(word) // 3)
        found: dict[str, str] = {}
        for column, part in (("word", word[:third]), ("backwards", word[::-1][:third])):
            words, values = self._words(column, part)
            query = f"SELECT word, stem FROM ({words}) AS w WHERE length(word) BETWEEN %(least)s AND %(most)s"
            found.update(self.session.ask(query, {**values, "least": len(word) - 2, "most": len(word) + 2}))
        return found

    def best(self, terms: Iterable[str], scope: Scope, wanted: int) -> list[int]:
        """Return up to `wanted` documents with one of the stems, best first by BM25 as in FTS5."""
        listed = list(terms)
        self.prepare(listed)
        counts = {key: self._statistics.counts(key)[1] for key in map(key_of, listed)}
        keys = [key for key, found in counts.items() if found]
        if not keys or self.lengths.keys().isdisjoint(scope.kinds or KINDS):
            return []
        _, documents, size, _ = self._statistics.facts
        worth = [math.log((documents - found + 0.5) / (found + 0.5)) for found in map(counts.__getitem__, keys)]
        conditions, join, values = self._conditions(scope)
        rows = self.session.ask(
            "SELECT p.doc FROM unnest(%(stems)s::text[], %(worth)s::float8[]) AS q (stem, worth)"
            f' JOIN {{p}}postings AS p ON p.stem = q.stem COLLATE "C"{join}'
            f" WHERE p.amount > 0 AND {' AND '.join(conditions)} GROUP BY p.doc ORDER BY round(1e9 * sum("
            f"q.worth * p.amount * {_K1 + 1} / (p.amount + {_K1} * ({1 - _B} + {_B} * p.size / %(mean)s::float8))"
            ")) DESC, p.doc LIMIT %(wanted)s",
            {
                **values,
                "stems": keys,
                "worth": [max(each, _LEAST_IDF) for each in worth],
                "mean": size / documents,
                "wanted": wanted,
            },
        )
        return [number for (number,) in rows]

    def _conditions(self, scope: Scope) -> tuple[list[str], str, dict[str, Any]]:
        """Return the conditions on postings for a scope, the join that they need, and their values."""
        kinds = sorted(map(KINDS.index, scope.kinds or KINDS))
        low, high = kinds[0] << KIND_BITS, (kinds[-1] + 1 << KIND_BITS) - 1
        values: dict[str, Any] = {**self._tree_parts.values, "low": low, "high": high}
        conditions = [self._tree_parts.contain("p.part"), "p.doc BETWEEN %(low)s AND %(high)s"]
        if len(set(kinds)) < kinds[-1] - kinds[0] + 1:
            conditions.append(f"(p.doc >> {KIND_BITS}) = ANY(%(kinds)s)")
            values["kinds"] = list(kinds)
        hidden = flags_of(internal=not scope.internal, owned=not scope.user)
        if hidden:
            conditions.append("p.flags = ANY(%(flags)s)")
            values["flags"] = [flags for flags in range(4) if not flags & hidden]
        if self.removed:
            conditions.append("p.doc <> ALL(%(removed)s)")
            values["removed"] = list(self.removed)
        on_document = []
        if scope.user:
            on_document.append(f"(p.flags & {_IS_OWNED} = 0 OR d.owner = %(user)s)")
            values["user"] = stored_text(scope.user)
        if scope.connection is not None:
            on_document.append("d.connection IN ('', %(connection)s)")
            values["connection"] = stored_text(scope.connection)
        if scope.tag is not None:
            on_document.append("%(tag)s = ANY(d.tags)")
            values["tag"] = stored_text(scope.tag)
        join = " JOIN {p}docs AS d ON d.id = p.doc" if on_document else ""
        return conditions + on_document, join, values

    @property
    def _in_tree(self) -> str:
        """The condition on documents of the tree, with the parameters of `TreeParts.values`."""
        return self._tree_parts.contain("d.part")

    def total(self, terms: Iterable[str], scope: Scope) -> int:
        """See `IndexStore`."""
        keys = list(dict.fromkeys(map(key_of, terms)))
        conditions, join, values = self._conditions(scope)
        query = f"SELECT count(DISTINCT p.doc) FROM {{p}}postings AS p{join} WHERE p.stem = ANY(%(stems)s)"
        where = f"p.amount > 0 AND {' AND '.join(conditions)}"
        return int(self.session.ask(f"{query} AND {where}", {**values, "stems": keys})[0][0]) if keys else 0

    def within(self, scope: Scope) -> list[int]:
        """See `IndexStore`."""
        where, values = self._document_conditions(scope)
        return [
            number
            for (number,) in self.session.ask(f"SELECT d.id FROM {{p}}docs AS d WHERE {where} ORDER BY 1", values)
        ]

    def _document_conditions(self, scope: Scope) -> tuple[str, dict[str, Any]]:
        """Return the condition on documents for a scope, and its values."""
        conditions, _, values = self._conditions(scope)
        # Other conditions than on postings, whose selectivity Postgres knows.
        conditions = [each for each in conditions if "p.flags" not in each]
        conditions += [] if scope.internal else ["NOT d.internal"]
        conditions.append("d.owner IN ('', %(user)s)" if scope.user else "d.owner = ''")
        return " AND ".join(conditions).replace("p.doc", "d.id").replace("p.part", "d.part"), values

    def rows(self, numbers: Sequence[int]) -> Iterator[Row]:
        """See `IndexStore`."""
        for facts in self._of(f"{_ROW}, d.texts", numbers):
            yield Row(*(*facts[:_FACTS], tuple(f" {text} " for text in facts[_FACTS].split("\n"))))

    def bare_rows(self, numbers: Sequence[int]) -> Iterator[Row]:
        """See `IndexStore`."""
        for facts in self._of(_ROW, numbers):
            yield Row(*facts)

    def _of(self, what: str, numbers: Sequence[int]) -> list[Any]:
        if not numbers:
            return []
        return self.session.ask(f"SELECT {what} FROM {{p}}docs AS d WHERE d.id = ANY(%s)", (list(numbers),))

    def shown(self, numbers: Sequence[int]) -> dict[int, tuple[str, bytes]]:
        """See `IndexStore`."""
        rows = self._of("d.id, d.summary, d.fields", numbers)
        return {number: (summary, bytes(fields)) for number, summary, fields in rows}

    def naming(self, names: Collection[str]) -> list[tuple[str, str, str]]:
        """See `IndexStore`."""
        if not names:
            return []
        query = "SELECT m.name, d.name, d.owner, d.id FROM {p}mentions AS m JOIN {p}docs AS d ON d.id = m.doc"
        values = {**self._tree_parts.values, "names": [stored_text(each) for each in sorted(names)]}
        rows = self.session.ask(f"{query} WHERE m.name = ANY(%(names)s) AND {self._in_tree}", values)
        return [(name, page, owner) for name, page, owner, number in rows if number not in self.removed]

    def named_by(self, number: int) -> list[str]:
        """See `IndexStore`."""
        return [name for (name,) in self.session.ask("SELECT name FROM {p}mentions WHERE doc = %s", (number,))]

    def owned(self, user: str) -> set[str]:
        """See `IndexStore`."""
        query = (
            f"SELECT d.id, d.name FROM {{p}}docs AS d WHERE d.owner = %(user)s AND d.kind = 'page' AND {self._in_tree}"
        )
        rows = self.session.ask(query, {"user": stored_text(user), **self._tree_parts.values}) if user else ()
        return {name for number, name in rows if number not in self.removed}

    @property
    def models(self) -> Collection[str]:
        """The models of the vectors of this tree."""
        return self._dimensions.keys()

    @functools.cached_property
    def _dimensions(self) -> Mapping[str, int]:
        rows = self.session.ask("SELECT model, dimensions FROM {p}models WHERE tree = %s", (self.tree,))
        return dict(rows)

    def dimensions(self, model: str) -> int:
        """See `IndexStore`."""
        return self._dimensions.get(model, 0)

    def vectors(self, model: str) -> list[tuple[int, bytes, str]]:
        """See `IndexStore`; only called if the database does not compare vectors."""
        query = "SELECT d.id, v.vector, d.kind FROM {p}docs AS d JOIN {p}vectors AS v ON v.digest = d.digest"
        values = {**self._tree_parts.values, "model": model}
        rows = self.session.ask(f"{query} WHERE v.model = %(model)s AND {self._in_tree} ORDER BY d.id", values)
        return [(number, bytes(vector), kind) for number, vector, kind in rows]

    @functools.cached_property
    def _vector_schema(self) -> str | None:
        """The schema of pgvector if the database compares vectors."""
        return vector_schema(self.session) if compares_vectors(self.session) else None

    def nearest(self, model: str, vector: Sequence[float], scope: Scope, wanted: int) -> list[int] | None:
        """Return the documents whose vectors are nearest, most similar first, or None without pgvector."""
        schema = self._vector_schema
        if schema is None:
            return None
        where, values = self._document_conditions(scope)
        worth = " ".join(f"WHEN '{kind}' THEN {weight}" for kind, weight in WORTH.items())
        # The operator returns the negative inner product, and stored vectors have the length 1.
        alike = f'-(v.vector OPERATOR("{schema}".<#>) %(vector)s::"{schema}".vector)'
        rows = self.session.ask(
            f"SELECT d.id, {alike} * CASE d.kind {worth} ELSE 1.0 END AS alike FROM {{p}}docs AS d"
            f" JOIN {{p}}vectors AS v ON v.digest = d.digest WHERE v.model = %(model)s AND {where}"
            " ORDER BY alike DESC, d.id LIMIT %(wanted)s",
            {**values, "model": model, "vector": f"[{','.join(map(str, vector))}]", "wanted": wanted},
        )
        return [number for number, similarity in rows if similarity > 0]
