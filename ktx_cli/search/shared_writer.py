"""Write the trees of a shared index, a root in full and other trees as their differences from one, and drop them."""

from __future__ import annotations

import functools
import json
import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ktx_cli.core import Emit, StepProgress
from ktx_cli.project import SharedDatabase, Tree, hash_of, stored_text
from ktx_cli.search.base import STEP, Refreshed
from ktx_cli.search.corpus import KINDS, NOT_HERE, Contents, Document, digest_of
from ktx_cli.search.shared_session import SearchSession, reader_of
from ktx_cli.search.shared_store import TreeParts, flags_of, is_long, key_of, parts_of
from ktx_cli.search.stems import stem
from ktx_cli.search.store import FINDING, KIND_BITS, TIERS, packed_fields, storable, stored_texts

_AT_ONCE: Final = 5_000
"""Number of documents to collect before writing."""
_MOST_CHANGED: Final = 60_000
"""Number of stems in the documents in which a tree may differ from its root: a search reads them once for each tree."""
_ROOT_SHARE: Final = 4
"""A tree that differs from its root by more than one in so many stems is a root itself."""

KEPT_DAYS: Final = 7
"""A tree that no run used for this long is dropped, unless it is the one that was used last."""
LEFT_DAYS: Final = 1
"""A tree is dropped after this time if all working trees that used it have another one now."""
GRACE_HOURS: Final = 1
"""How long the content of a dropped tree stays, so that searches that have begun find it."""

Digests = Mapping[str, tuple[str, str]]
"""The units with their signatures and digests."""


def units_of(session: SearchSession, tree: int) -> dict[str, str]:
    """Return the units of a tree with their digests."""
    rows = session.ask(
        "SELECT u.unit, u.digest FROM {p}trees AS t JOIN {p}units AS u ON u.tree IN (t.root, t.id) WHERE t.id = %s"
        " ORDER BY u.tree = t.id",
        (tree,),
    )
    return {unit: digest for unit, digest in dict(rows).items() if digest is not None}


_NEAREST: Final = """
    WITH same AS MATERIALIZED (
        SELECT tree, unit FROM {p}units WHERE ((unit, digest) IN (
            SELECT unit COLLATE "C", digest COLLATE "C" FROM unnest(%s::text[], %s::text[]) AS own (unit, digest)
        )) IS TRUE),
    counted AS (SELECT tree, count(*) AS units FROM same GROUP BY tree),
    replaced AS (
        SELECT t.id AS tree, count(*) AS units FROM {p}trees AS t
        JOIN {p}units AS u ON u.tree = t.id JOIN same AS s ON s.tree = t.root AND s.unit = u.unit
        WHERE t.id <> t.root AND t.dropped IS NULL GROUP BY t.id)
    SELECT t.id FROM {p}trees AS t LEFT JOIN counted AS r ON r.tree = t.root
    LEFT JOIN counted AS c ON c.tree = t.id AND t.id <> t.root LEFT JOIN replaced AS x ON x.tree = t.id
    WHERE t.dropped IS NULL
    ORDER BY 2 * (coalesce(r.units, 0) + coalesce(c.units, 0) - coalesce(x.units, 0)) - t.units DESC, t.id DESC LIMIT 1
"""
# `IS TRUE` keeps Postgres from joining, for which it expects one row and then compares all units with each other.


def nearest_tree(session: SearchSession, digests: Mapping[str, str]) -> int | None:
    """Return the stored tree from which the fewest units differ, or None without a tree."""
    rows = session.ask(_NEAREST, (list(map(_stored, digests)), list(digests.values())))
    return int(rows[0][0]) if rows else None


def digest_of_tree(units: Digests) -> str:
    """Return the digest of a tree with these units."""
    return hash_of(sorted(f"{unit}\n{digest}" for unit, (_, digest) in units.items()))


def revived_tree(session: SearchSession, digest: str) -> int | None:
    """Return the tree with a digest, also one that was dropped and whose content is still there."""
    update = "UPDATE {p}trees SET dropped = NULL, used = now() WHERE digest = %s RETURNING id"
    rows = session.ask(update, (digest,))
    if rows:
        move_to_new_roots(session)
    return int(rows[0][0]) if rows else None


class TreeWriter:
    """Stores one tree in a transaction."""

    def __init__(self, session: SearchSession, contents: Contents, tree: Tree, done: Refreshed, emit: Emit) -> None:
        self._session, self._contents, self._tree = session, contents, tree
        self._done, self._emit = done, emit
        self.wrote_root = False
        self._docs: list[str] = []
        self._postings: list[str] = []
        self._mentions: list[str] = []
        self._parts: list[str] = []
        self._following_part = int(session.ask("SELECT coalesce(max(id), 0) + 1 FROM {p}parts")[0][0])

    def store(self, units: Digests) -> tuple[int, Digests]:
        """Store a tree with the parts that no other tree has, and return its number and its units.

        Units whose content is neither stored nor on this machine have the digest `NOT_HERE`, and those that changed
        while they were read have one that no other tree has.
        """
        session = self._session
        near = nearest_tree(session, {unit: own for unit, (_, own) in units.items()})
        before = {} if near is None else units_of(session, near)
        same = {unit for unit, (_, own) in units.items() if before.get(_stored(unit)) == own}
        kept, gone = self._parts_of(near, {_stored(unit) for unit in same})
        added: set[int] = set()
        others: dict[str, tuple[str, str]] = {}
        known = self._stored_parts(units.keys() - same)
        for place, unit in enumerate(sorted(units.keys() - same)):
            signature, own = units[unit]
            parts, stored_digest = self._store_unit(unit, known.get(_stored(unit), {}), own)
            added |= parts
            if stored_digest != own:
                others[unit] = (signature, stored_digest)
            if place % 100 == 0:
                self._emit(StepProgress(STEP, place, len(units) - len(same)))
        self._flush()
        units = {**units, **others}
        digest = digest_of_tree(units)
        number = revived_tree(session, digest) if others else None
        if number is None:
            number = self._insert_tree(digest, len(units), near, added - gone, gone - added)
            self._describe(number, near, kept | added, {_stored(unit): own for unit, (_, own) in units.items()})
            self._done.removed = self._number_of(gone - added)
        return number, units

    def _parts_of(self, near: int | None, same: Collection[str]) -> tuple[set[int], set[int]]:
        """Return the parts of a tree that the new one shares, and its other parts."""
        if near is None:
            return set(), set()
        parts = parts_of(self._session, near)
        rows = self._session.ask(
            f"SELECT p.id, p.unit FROM {{p}}parts AS p WHERE {parts.contain('p.id')}", parts.values
        )
        return {part for part, unit in rows if unit in same}, {part for part, unit in rows if unit not in same}

    def _store_unit(self, unit: str, known: dict[tuple[str, str], int], digest: str) -> tuple[set[int], str]:
        """Store the missing parts of a unit, and return all of them, and the digest of what they are; see `store`.

        `known` are its stored parts.
        """
        now = self._contents.parts(unit, self._tree)
        if NOT_HERE in now.values():
            part = known.get(("", digest))
            return (set(), NOT_HERE) if part is None else ({part}, digest)
        found = {known[key] for name, own in now.items() if (key := (_stored(name), own)) in known}
        missing = [name for name, own in now.items() if (_stored(name), own) not in known]
        new: list[tuple[int, str, str]] = []
        for name, documents in self._contents.documents(unit, self._tree, missing):
            part = self._following_part
            self._following_part += 1
            spelled: dict[str, str] = {}
            for document in documents.values():
                self._add(part, document, spelled)
            new.append((part, name, _array(word for word in spelled if not is_long(word))))
        changed = "" if self._contents.digest(unit, self._tree) == digest else f"changed {secrets.token_hex(8)}"
        for part, name, words in new:
            row = (part, _stored(unit), _stored(name), changed or now[name], words)
            self._parts.append("\t".join(map(_copied, row)) + "\n")
        self._contents.release(unit)
        self._done.units += 1
        return found | {part for part, _, _ in new}, changed or digest

    def _stored_parts(self, units: Collection[str]) -> Mapping[str, dict[tuple[str, str], int]]:
        """Return the stored parts of each unit: (name, digest) -> number."""
        found: dict[str, dict[tuple[str, str], int]] = {}
        query = "SELECT unit, name, digest, id FROM {p}parts WHERE unit = ANY(%s)"
        for unit, name, digest, part in self._session.ask(query, (list(map(_stored, units)),)) if units else ():
            found.setdefault(unit, {})[name, digest] = part
        return found

    @functools.cached_property
    def _following(self) -> dict[str, int]:
        """The number of the next document of each kind."""
        rows = self._session.ask(f"SELECT id >> {KIND_BITS}, max(id) FROM {{p}}docs GROUP BY 1")
        last = dict(rows)
        return {kind: last.get(place, place << KIND_BITS) + 1 for place, kind in enumerate(KINDS)}

    def _add(self, part: int, document: Document, spelled: dict[str, str]) -> None:
        number = self._following[document.kind]
        self._following[document.kind] += 1
        texts, length, _ = stored_texts(document, spelled)
        columns = {tier: texts[tier].split() for tier in TIERS}
        size = sum(map(len, columns.values())) + len(texts["tag"].split())
        amounts: dict[str, float] = dict.fromkeys(columns["beside"], 0.0)
        for tier in FINDING:
            for term in columns[tier]:
                amounts[term] = amounts.get(term, 0.0) + TIERS[tier]
        flags = flags_of(internal=document.internal, owned=bool(document.owner))
        tail = f"\t{number}\t{part}\t"
        rest = f"\t{size}\t{flags}\n"
        self._postings += [f"{key_of(term)}{tail}{amount}{rest}" for term, amount in amounts.items()]
        row = (
            *(number, part, document.kind, _stored(document.id), _stored(document.connection)),
            *(_stored(document.owner), "t" if document.internal else "f", _array(document.tags), document.order),
            *(_stored(document.summary), length, document.worth, size, f"\\x{digest_of(document).hex()}"),
            *(f"\\x{packed_fields(document).hex()}", "\n".join(texts[tier] for tier in TIERS)),
        )
        self._docs.append("\t".join(map(_copied, row)) + "\n")
        self._mentions += [f"{_copied(_stored(each))}\t{number}\n" for each in dict.fromkeys(document.mentions)]
        self._done.added += 1
        if len(self._docs) >= _AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        """Write the collected documents."""
        session = self._session
        for name, columns, lines in (
            ("docs", _DOC_COLUMNS, self._docs),
            ("postings", "stem, doc, part, amount, size, flags", self._postings),
            ("mentions", "name, doc", self._mentions),
            ("parts", "id, unit, name, digest, words", self._parts),
        ):
            if lines:
                session.copy(f"COPY {{p}}{name} ({columns}) FROM STDIN", "".join(lines))
                lines.clear()

    def _insert_tree(
        self, digest: str, units: int, near: int | None, added: Collection[int], gone: Collection[int]
    ) -> int:
        """Store a tree, with the numbers of documents: those of the nearest tree, plus its own, minus the others."""
        size, totals = 0, dict[str, list[float]]()
        if near is not None:
            size, totals = self._session.ask("SELECT size, totals FROM {p}trees WHERE id = %s", (near,))[0]
        rows = self._session.ask(
            "SELECT kind, sum(sign), sum(sign * length), sum(sign * size) FROM (SELECT kind, length, size,"
            " CASE WHEN part = ANY(%(added)s::int[]) THEN 1 ELSE -1 END AS sign FROM {p}docs"
            " WHERE part = ANY(%(added)s::int[] || %(gone)s::int[])) AS d GROUP BY kind",
            {"added": list(added), "gone": list(gone)},
        )
        for kind, number, length, more in rows:
            before = totals.get(kind, [0, 0.0])
            totals[kind] = [before[0] + number, before[1] + length]
            size += more
        totals = {kind: each for kind, each in totals.items() if each[0]}
        documents = sum(number for number, _ in totals.values())
        insert = "INSERT INTO {p}trees (digest, root, added, gone, units, documents, size, totals, holders, used)"
        values = (digest, units, documents, size, json.dumps(totals))
        rows = self._session.ask(
            f"{insert} VALUES (%s, 0, '{{}}', '{{}}', %s, %s, %s, %s::jsonb, '{{}}', now()) RETURNING id", values
        )
        return int(rows[0][0])

    def _describe(self, number: int, near: int | None, parts: set[int], units: Mapping[str, str]) -> None:
        """Store what a tree consists of: its differences from the root of the nearest tree, unless there are many."""
        root = 0 if near is None else parts_of(self._session, near).root
        of_root = _parts_of_root(self._session, root)
        own = TreeParts(root, sorted(parts - of_root), sorted(of_root - parts))
        changed = "SELECT coalesce(sum(size), 0) FROM {p}docs WHERE part = ANY(%s)"
        differing = self._session.ask(changed, (own.added + own.gone,))[0][0]
        size = self._session.ask("SELECT size FROM {p}trees WHERE id = %s", (number,))[0][0]
        if near is None or differing > min(_MOST_CHANGED, size // _ROOT_SHARE):
            write_root(self._session, number, own, units)
            self.wrote_root = True
        else:
            write_differences(self._session, number, own, units, units_of(self._session, root))

    def _number_of(self, parts: Collection[int]) -> int:
        return int(self._session.ask("SELECT count(*) FROM {p}docs WHERE part = ANY(%s)", (list(parts),))[0][0])


_DOC_COLUMNS: Final = (
    "id, part, kind, name, connection, owner, internal, tags, place, summary, length, worth, size, digest, fields,"
    " texts"
)


def _stored(text: str) -> str:
    return stored_text(storable(text))


_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _copied(value: object) -> str:
    """Return a value in the text format of COPY."""
    return str(value).translate(_ESCAPES)


def _array(texts: Iterable[str]) -> str:
    """Return an array of texts as a literal."""
    quoted = (_stored(each).replace("\\", "\\\\").replace('"', '\\"') for each in texts)
    return "{" + ",".join(f'"{each}"' for each in quoted) + "}"


def _parts_of_root(session: SearchSession, root: int) -> set[int]:
    return {part for (part,) in session.ask("SELECT part FROM {p}root_parts WHERE root = %s", (root,))}


def write_differences(
    session: SearchSession, tree: int, parts: TreeParts, units: Mapping[str, str], of_root: Mapping[str, str]
) -> None:
    """Store the differences of a tree from its root. `units` and `of_root` are the units of both, with digests."""
    changed = {unit: digest for unit, digest in units.items() if of_root.get(unit) != digest}
    _write_units(session, tree, {**changed, **dict.fromkeys(of_root.keys() - units.keys())})
    update = "UPDATE {p}trees SET root = %s, added = %s::int[], gone = %s::int[] WHERE id = %s"
    session.execute(update, (parts.root, parts.added, parts.gone, tree))


def _write_units(session: SearchSession, tree: int, units: Mapping[str, str | None]) -> None:
    session.execute("DELETE FROM {p}units WHERE tree = %s", (tree,))
    session.execute(
        "INSERT INTO {p}units (tree, unit, digest) SELECT %s, * FROM unnest(%s::text[], %s::text[])",
        (tree, list(units), list(units.values())),
    )


_SIGN: Final = "CASE WHEN {0} = ANY(%(added)s::int[]) THEN 1 ELSE -1 END"
_CHANGED: Final = "ANY(%(added)s::int[] || %(gone)s::int[])"
_ROOT_TERMS: Final = f"""
    INSERT INTO {{p}}terms (root, stem, docs, found) SELECT %(tree)s, stem, sum(docs), sum(found) FROM (
        SELECT stem, docs, found FROM {{p}}terms WHERE root = %(root)s
        UNION ALL SELECT stem, sum({_SIGN.format("part")}), sum((amount > 0)::int * {_SIGN.format("part")})
        FROM {{p}}postings WHERE part = {_CHANGED} GROUP BY stem) AS s
    GROUP BY stem HAVING sum(docs) > 0
"""
_OTHER_WORDS: Final = f"""
    SELECT w.word, sum({_SIGN.format("p.id")}) FROM {{p}}parts AS p, unnest(p.words) AS w (word)
    WHERE p.id = {_CHANGED} GROUP BY w.word HAVING sum({_SIGN.format("p.id")}) <> 0
"""
_ROOT_WORDS: Final = """
    INSERT INTO {p}words (root, word, backwards, stem, parts)
    SELECT %(tree)s, word, reverse(word), min(stem), sum(parts) FROM (
        SELECT word, stem, parts FROM {p}words WHERE root = %(root)s
        UNION ALL SELECT word COLLATE "C", stem COLLATE "C", parts
        FROM unnest(%(words)s::text[], %(stems)s::text[], %(parts)s::int[]) AS own (word, stem, parts)) AS s
    GROUP BY word HAVING sum(parts) > 0
"""


def write_root(session: SearchSession, tree: int, parts: TreeParts, units: Mapping[str, str]) -> None:
    """Store a tree as a root, given its parts by another root, and its units with digests."""
    values = {**parts.values, "tree": tree}
    of_tree = f"SELECT %(tree)s, p.id FROM {{p}}parts AS p WHERE {parts.contain('p.id')}"
    session.execute(f"INSERT INTO {{p}}root_parts (root, part) {of_tree}", values)
    session.execute(_ROOT_TERMS, values)
    rows = session.ask(_OTHER_WORDS, values)
    words = [word for word, _ in rows]
    own = {"words": words, "stems": list(map(stem, words)), "parts": [number for _, number in rows]}
    session.execute(_ROOT_WORDS, {**values, **own})
    _write_units(session, tree, units)
    session.execute("UPDATE {p}trees SET root = id, added = '{}', gone = '{}' WHERE id = %s", (tree,))


def move_to_new_roots(session: SearchSession) -> None:
    """Store trees whose root was dropped as differences from the newest of them, which becomes a root."""
    rows = session.ask(
        "SELECT root, array_agg(id ORDER BY id DESC) FROM {p}trees WHERE dropped IS NULL AND root NOT IN"
        " (SELECT id FROM {p}trees WHERE dropped IS NULL) GROUP BY root"
    )
    for root, (first, *others) in rows:
        of_root = _parts_of_root(session, root)
        units = {tree: units_of(session, tree) for tree in (first, *others)}
        parts = {tree: parts_of(session, tree) for tree in (first, *others)}
        all_parts = {tree: (of_root - set(own.gone)) | set(own.added) for tree, own in parts.items()}
        write_root(session, first, parts[first], units[first])
        for tree in others:
            more, less = all_parts[tree] - all_parts[first], all_parts[first] - all_parts[tree]
            write_differences(session, tree, TreeParts(first, sorted(more), sorted(less)), units[tree], units[first])


def drop_old(session: SearchSession) -> None:
    """Drop trees that were not used for a while, and later their content."""
    last = "SELECT id FROM {p}trees WHERE dropped IS NULL ORDER BY used DESC, id DESC LIMIT 1"
    newest = "SELECT max(id) FROM {p}trees WHERE dropped IS NULL"
    days = f"CASE holders WHEN '{{}}' THEN {LEFT_DAYS} ELSE {KEPT_DAYS} END"
    is_old = (
        f"dropped IS NULL AND used < now() - {days} * interval '1 day' AND id NOT IN ({last}) AND id NOT IN ({newest})"
    )
    is_gone = f"dropped < now() - interval '{GRACE_HOURS} hours'"
    if not session.ask(f"SELECT EXISTS (SELECT FROM {{p}}trees WHERE {is_old} OR {is_gone})")[0][0]:
        return
    with session.transaction():
        session.execute(f"UPDATE {{p}}trees SET dropped = now() WHERE {is_old}")
        move_to_new_roots(session)
        if session.execute(f"DELETE FROM {{p}}trees WHERE {is_gone}"):
            _delete_content(session)


def _delete_content(session: SearchSession) -> None:
    """Delete what no tree has."""
    for table, column in (
        ("units", "tree"),
        ("models", "tree"),
        ("root_parts", "root"),
        ("terms", "root"),
        ("words", "root"),
    ):
        session.execute(f"DELETE FROM {{p}}{table} WHERE {column} NOT IN (SELECT id FROM {{p}}trees)")
    rows = session.ask(
        "DELETE FROM {p}parts AS p WHERE NOT EXISTS (SELECT FROM {p}root_parts AS r WHERE r.part = p.id)"
        " AND id NOT IN (SELECT unnest(added) FROM {p}trees) RETURNING id"
    )
    values = ([part for (part,) in rows],)
    session.execute("DELETE FROM {p}mentions WHERE doc IN (SELECT id FROM {p}docs WHERE part = ANY(%s))", values)
    session.execute("DELETE FROM {p}docs WHERE part = ANY(%s)", values)
    session.execute("DELETE FROM {p}postings WHERE part = ANY(%s)", values)
    session.execute("DELETE FROM {p}vectors AS v WHERE NOT EXISTS (SELECT FROM {p}docs AS d WHERE d.digest = v.digest)")


@dataclass(frozen=True, slots=True)
class UnusedVersion:
    """The tables of another version of the index, which nothing deletes."""

    name: str
    """What their names begin with."""
    size: str
    """For people: `12 MB`."""
    drop: str
    """The statement that deletes them."""


_OTHER_VERSIONS: Final = r"""
    SELECT left(c.relname, -length('trees')) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relkind = 'r' AND c.relname ~ '^search_\d+_\d+_trees$' AND c.relname <> '{p}trees'
          AND has_table_privilege(c.oid, 'SELECT')
          AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid AND attname = 'used')
    ORDER BY 1
"""
_OF_VERSION: Final = """
    SELECT string_agg(format('%%I.%%I', n.nspname, c.relname), ', ' ORDER BY c.relname),
           pg_size_pretty(sum(pg_total_relation_size(c.oid)))
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relkind = 'r' AND starts_with(c.relname, %s)
"""


def unused_versions(database: SharedDatabase) -> list[UnusedVersion]:
    """Return the other versions of an index that no host has used for as long as trees are kept.

    Raises `StorageError`.
    """
    session, found = reader_of(database), []
    for (name,) in session.ask(_OTHER_VERSIONS, (database.schema,)):
        is_unused = f"coalesce(max(used) < now() - interval '{KEPT_DAYS} days', true)"
        if session.ask(f'SELECT {is_unused} FROM "{database.schema}"."{name}trees"')[0][0]:
            ((tables, size),) = session.ask(_OF_VERSION, (database.schema, name))
            found.append(UnusedVersion(name, size, f"DROP TABLE {tables}"))
    return found
