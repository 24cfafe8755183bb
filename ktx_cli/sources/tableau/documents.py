"""The documents in Tableau files, and what the raw files of a Tableau site say about them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ktx_cli.core import one_line
from ktx_cli.documents import Snapshot
from ktx_cli.project import MASK, redact_url
from ktx_cli.semantic import Place, Report, document_in
from ktx_cli.sources.table_texts import Name, Tables, Wanted

_TAG: Final = re.compile(r"""<!--.*?(?:-->|\Z)|<[A-Za-z](?:[^<>"']++|"[^"]*+"|'[^']*+')*+>""", re.DOTALL)
_SECRET_NAME: Final = (
    r"[\w.:-]{0,80}(?:password|passwd|passphrase|passcode|pwd|secret|token|credential|(?:api|access|private|account)[-_]?key"
    r"|connect(?:ion)?[-_]?string|one-time-sql|initial-sql|user-?name|user-?id)[\w.:-]{0,80}+|(?:[\w.-]{1,80}\.\.\.)?uid"
)
_CREDENTIALS: Final = re.compile(rf"""(\s(?:{_SECRET_NAME})\s*=\s*)('[^']*'|"[^"]*")""", re.IGNORECASE)
"""The attributes of a tag whose values are not stored, such as `odbc-connect-string-extras` and `oauth-token`."""
_CREDENTIAL_TEXTS: Final = re.compile(rf"(<({_SECRET_NAME})\b[^<>]*>)([^<]+)(</\2\s*>)", re.IGNORECASE)
_PARAMETERS: Final = re.compile(
    r"""((?:[;?&]\s*[\w -]{0,30}|["'][\w-]{0,30})(?:password|passwd|passphrase|pwd|secret|token)\s*=\s*)"""
    r"""(?!["'])(?:\{[^{}<>"']*\}|[^;&"'<>\s]+)""",
    re.IGNORECASE,
)
"""The secrets in a connection string or in the parameters of an address."""
_ADDRESSES: Final = re.compile(r"""(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{1,30}://[^\s"'<>]+""", re.IGNORECASE)
_PICTURES: Final = re.compile(r"(<thumbnail\b[^>]*>)([^<]*)(</thumbnail>)")

MIN_LETTERS: Final = 20
"""The minimum number of letters and digits in texts by people for which an agent is worth its cost."""

_MOST_FORMULAS: Final = 60


def plain_document(path: str, content: bytes) -> str:
    """Return the document in a Tableau file, without credentials and pictures; lines keep their numbers.

    Raises `ConfigError` for an archive that is damaged, too large or unsafe.
    """
    text = document_in(path, content).decode("utf-8-sig", "replace")
    text = _TAG.sub(lambda tag: _CREDENTIALS.sub(lambda found: f"{found[1]}'{_lines(found[2])}'", tag[0]), text)
    text = _CREDENTIAL_TEXTS.sub(lambda found: f"{found[1]}{_lines(found[3])}{found[4]}", text)
    text = _ADDRESSES.sub(lambda found: redact_url(found[0]), text)
    text = _PARAMETERS.sub(rf"\g<1>{MASK}", text)
    return _PICTURES.sub(lambda found: found[1] + _lines(found[2]) + found[3], text)


def _lines(text: str) -> str:
    """Return the line breaks of a text."""
    return "\n" * text.count("\n")


def catalog_of(snapshot: Snapshot, folder: str) -> dict[str, Mapping[str, Any]]:
    """Return the facts about the items of a site, by raw file; empty for files in a folder or a repository."""
    paths = (path for path in snapshot.files if path.startswith(folder) and path.endswith(".json"))
    return {path: json.loads(snapshot.files[path].read()) for path in paths}


def has_knowledge(facts: Mapping[str, Any]) -> bool:
    """Return whether people wrote something about an item, or its formulas are in no file."""
    words = f"{facts.get('description', '')}{facts.get('certification_note', '')}"
    formulas = any(each.get("formula") or each.get("description") for each in facts.get("fields", ()))
    return formulas or sum(map(str.isalnum, words)) >= MIN_LETTERS


def shown_facts(facts: Mapping[str, Any]) -> str:
    """Return the facts about an item as notes for an agent."""
    lines = [f"What Tableau knows about the {facts['kind']} `{one_line(facts['name'], 100)}`:"]
    for key in ("description", "certification_note", "owner", "opened"):
        if facts.get(key):
            lines.append(f"- {key.replace('_', ' ')}: {one_line(str(facts[key]), 500)}")
    if facts.get("certified"):
        lines.append("- it is certified")
    for key, what in (("data_sources", "uses the data sources"), ("workbooks", "is used by the workbooks")):
        if facts.get(key):
            lines.append(f"- it {what} {one_line(', '.join(facts[key]), 500)}")
    if facts.get("tables"):
        lines.append(f"- it reads the tables {one_line(', '.join(each['table'] for each in facts['tables']), 500)}")
    formulas = [each for each in facts.get("fields", ()) if each.get("formula") or each.get("description")]
    for each in formulas[:_MOST_FORMULAS]:
        text = ": ".join(filter(None, (each.get("description"), each.get("formula"))))
        lines.append(f"- field `{one_line(each['name'], 100)}`: {one_line(text, 400)}")
    if len(formulas) > _MOST_FORMULAS:
        lines.append(f"- and {len(formulas) - _MOST_FORMULAS} more fields: read the file")
    return "\n".join(lines)


def want_table_texts(
    catalog: Mapping[str, Mapping[str, Any]],
    tables: Tables,
    only: str | None,
    wanted: Wanted,
    report: Report,
    tool: str,
) -> None:
    """Add the descriptions of tables in Tableau to the tables, where exactly one connection has the table.

    `only`: the connection whose tables the site uses, if it is configured.
    """
    for path, described in _described(catalog):
        found = [
            each for each in tables.find(Name(*reversed(described["parts"][-3:]))) if only in (None, each.connection)
        ]
        what, place = f"description of table `{described['table']}`", Place(path)
        if len(found) != 1:
            report.dropped(what, "no scanned database has exactly one such table", place)
            continue
        table = found[0]
        wanted.add(table.shard, ("tables", table.source.name, "descriptions", tool), described["description"], path)
        report.kept(what, place, f"{table.connection}/{table.source.name}")


def _described(catalog: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each table with a description once, with the first raw file that has it."""
    seen: set[str] = set()
    for path, facts in sorted(catalog.items()):
        tables: Iterable[Mapping[str, Any]] = facts.get("tables", ())
        for each in tables:
            if each.get("description") and each["table"] not in seen:
                seen.add(each["table"])
                yield path, each
