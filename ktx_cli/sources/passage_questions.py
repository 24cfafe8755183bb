"""The questions that each passage of a document answers, and synonyms for its topics, written by a model.

They are stored in the state database, one row per document. A passage's questions apply only to the text for which they
were written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

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


def load_questions(database: StateDatabase, connection: str, path: str) -> DocumentQuestions:
    """Return the questions for a document's passages, or none if there are none yet."""
    row = database.execute(
        "SELECT sha256, passages FROM passage_questions WHERE connection = ? AND path = ?", (connection, path)
    ).fetchone()
    if row is None:
        return DocumentQuestions(path)
    passages = {digest: PassageQuestions(tuple(each[0]), tuple(each[1])) for digest, each in json.loads(row[1]).items()}
    return DocumentQuestions(path, row[0], passages)


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
