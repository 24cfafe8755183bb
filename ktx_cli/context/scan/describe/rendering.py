"""Tables as the model reads them: JSON between two marks that no name, comment or value can imitate."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ktx_cli.connectors.port import Column, TableKind, TableRef
from ktx_cli.context.scan.describe.facts import TableFacts
from ktx_cli.context.scan.describe.labels import LONGEST_LABEL, Labels
from ktx_cli.context.scan.names import physical_name
from ktx_cli.context.scan.profiling.model import ColumnProfile
from ktx_cli.core.text import one_line
from ktx_cli.project.config.scan import Privacy

LONGEST_COMMENT: Final = 300
LONGEST_VALUE: Final = 40
LONGEST_TYPE: Final = 80
LONGEST_VIEW: Final = 1500
MOST_VALUES: Final = 5
MOST_JOINS: Final = 20
"""What of a table is shown at most: characters, values of a column, joins in each direction."""

BYTES_PER_TOKEN: Final = 3
"""Low on purpose: English and SQL have about four bytes a token, names and other scripts fewer."""


def estimated_tokens(text: str) -> int:
    """Return about how many tokens a text takes, rather too many than too few."""
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN)


def message(tables: Iterable[str]) -> str:
    """Return the user's turn: the tables between their marks."""
    return "<tables>\n" + "\n".join(tables) + "\n</tables>\n"


def table_json(head: Mapping[str, Any], columns: Sequence[Mapping[str, Any]]) -> str:
    """Return one table: its head on the first line, then a line a column."""
    lines = ",\n".join(map(encoded, columns))
    return f'{encoded(head)[:-1]}, "columns": [\n{lines}\n]}}' if columns else f'{encoded(head)[:-1]}, "columns": []}}'


def encoded(value: Any) -> str:
    """Return JSON on one line without `<` and `>`: data cannot close the marks around it."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def table_head(facts: TableFacts, label: str, columns: Labels[str]) -> dict[str, Any]:
    """Return what is said of a table besides its columns; of its rows only how many there are."""
    table = facts.table
    return _filled(
        {
            "table": label,
            "kind": None if table.kind is TableKind.TABLE else table.kind.value,
            "comment": _cut(table.comment),
            "texts": {source: _cut(text) for source, text in facts.texts.table.items()},
            "primary_key": [columns.shown(name) for name in table.primary_key],
            "unique": [[columns.shown(name) for name in key.columns] for key in table.unique_keys],
            "references": [
                _join(join.child_columns, join.parent, join.parent_columns) for join in facts.joins_out[:MOST_JOINS]
            ],
            "referenced_by": [
                _join(join.parent_columns, join.child, join.child_columns) for join in facts.joins_in[:MOST_JOINS]
            ],
            "rows": facts.profile.row_count if facts.profile else None,
            "view": one_line(table.view_sql, LONGEST_VIEW) if table.view_sql else None,
        }
    )


def column_json(
    column: Column, label: str, *, texts: Mapping[str, str], profile: ColumnProfile | None, privacy: Privacy
) -> dict[str, Any]:
    """Return what is said of a column; values of rows only where `privacy` is `off`."""
    return _filled(
        {
            "column": label,
            "type": one_line(column.native_type, LONGEST_TYPE) or column.type.value,
            "required": None if column.nullable else True,
            "default": one_line(column.default, LONGEST_VALUE) if column.default else None,
            "computed": column.generated or None,
            "comment": _cut(column.comment),
            "texts": {source: _cut(text) for source, text in texts.items()},
            **statistics(profile, privacy),
        }
    )


def statistics(profile: ColumnProfile | None, privacy: Privacy) -> dict[str, Any]:
    """Return counts, shares, lengths and kinds; with `off` also the most frequent values and the ends."""
    if profile is None:
        return {}
    facts: dict[str, Any] = {
        "holds": profile.kind.value,
        "share_filled": math.floor(100 * profile.filled / profile.rows) / 100,
        "distinct": profile.distinct,
        "length": None if profile.longest is None else [profile.shortest, profile.longest],
    }
    if privacy == "off":
        facts["values"] = [one_line(str(value), LONGEST_VALUE) for value, _ in profile.top[:MOST_VALUES]]
        facts["minimum"] = None if profile.minimum is None else one_line(str(profile.minimum), LONGEST_VALUE)
        facts["maximum"] = None if profile.maximum is None else one_line(str(profile.maximum), LONGEST_VALUE)
    return facts


def column_labels(facts: TableFacts) -> Labels[str]:
    """Return the shown names of a table's columns."""
    return Labels({column.name: column.name for column in facts.table.columns})


def table_labels(facts: Iterable[TableFacts]) -> Labels[TableRef]:
    """Return the shown names of tables."""
    return Labels({each.ref: physical_name(each.ref) for each in facts})


def _join(own: Sequence[str], other: TableRef, theirs: Sequence[str]) -> dict[str, Any]:
    return {
        "columns": [one_line(name, LONGEST_LABEL) for name in own],
        "table": one_line(physical_name(other), LONGEST_LABEL),
        "their_columns": [one_line(name, LONGEST_LABEL) for name in theirs],
    }


def _cut(text: str | None) -> str | None:
    return one_line(text, LONGEST_COMMENT) if text else None


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None and value not in ([], {})}
