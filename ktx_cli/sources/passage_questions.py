"""The questions that each passage of a document answers, and synonyms for its topics, written by a model.

They are stored in the state database, one row per document. A passage's questions apply only to the text for which they
were written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ktx_cli.project import StateDatabase, hash_of

PathStamps = Mapping[str, str]
"""Document path -> a digest of its questions."""


@dataclass(frozen=True, slots=True)
class PassageQuestions:
    """The texts by which search finds a passage, besides its own words."""

    questions: tuple[str, ...] = ()
    synonyms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentQuestions:
    """The questions for a document's passages."""

    path: str
    sha256: str = ""
    """The content for which every passage has questions, or an empty string if some are missing."""
    passages: Mapping[str, PassageQuestions] = field(default_factory=dict)
    """`passage_digest` -> the passage's questions."""


def passage_digest(title: str, heading: str, text: str) -> str:
    """Return a digest that identifies a passage in the form that a model read."""
    return hashlib.sha256(json.dumps([title, heading, text]).encode()).hexdigest()


def asked_contents(database: StateDatabase, connection: str) -> dict[str, str]:
    """Return a source's documents for which questions were requested.

    Each path has the sha256 of the content for which every passage has its questions, or an empty string if some are
    missing.
    """
    rows = database.execute("SELECT path, sha256 FROM passage_questions WHERE connection = ?", (connection,))
    return dict(rows.fetchall())


def question_stamps(database: StateDatabase) -> dict[str, dict[str, str]]:
    """Return document source -> path -> a digest of its questions."""
    found: dict[str, dict[str, str]] = {}
    for connection, path, stamp in database.execute("SELECT connection, path, stamp FROM passage_questions"):
        found.setdefault(connection, {})[path] = stamp
    return found


_AT_ONCE: Final = 500
"""How many documents one statement reads at most."""


def load_questions(database: StateDatabase, connection: str, paths: Iterable[str]) -> dict[str, DocumentQuestions]:
    """Return the documents, by path, that have questions for their passages."""
    wanted, found = list(paths), {}
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        places = ", ".join("?" * len(some))
        query = f"SELECT path, sha256, passages FROM passage_questions WHERE connection = ? AND path IN ({places})"
        for path, sha256, text in database.execute(query, (connection, *some)).fetchall():
            passages = {digest: PassageQuestions(*map(tuple, each)) for digest, each in json.loads(text).items()}
            found[path] = DocumentQuestions(path, sha256, passages)
    return found


def save_questions(database: StateDatabase, connection: str, documents: Iterable[DocumentQuestions]) -> None:
    """Replace the questions for documents; the caller has a transaction."""
    for each in documents:
        passages = json.dumps(
            {digest: [found.questions, found.synonyms] for digest, found in each.passages.items()}, sort_keys=True
        )
        row = (connection, each.path, each.sha256, hash_of((passages,)), passages)
        database.execute("INSERT OR REPLACE INTO passage_questions VALUES (?, ?, ?, ?, ?)", row)


def forget_questions(database: StateDatabase, connection: str, paths: Collection[str]) -> None:
    """Delete the questions for all documents of a source except some paths; the caller has a transaction."""
    stored = database.execute("SELECT path FROM passage_questions WHERE connection = ?", (connection,)).fetchall()
    gone = [(connection, path) for (path,) in stored if path not in paths]
    database.executemany("DELETE FROM passage_questions WHERE connection = ? AND path = ?", gone)
