"""What rules say of one column: its part in keys and joins, its type and unit, what was seen in it."""

from __future__ import annotations

from ktx_cli.connectors.port import Column, SemanticType
from ktx_cli.context.scan.describe.evidence import empty_text, values_text, years_text
from ktx_cli.context.scan.describe.facts import Join, TableFacts
from ktx_cli.context.scan.describe.roles import date_text, is_code, is_flag, is_linked, is_measure, unit
from ktx_cli.context.scan.names import physical_name, quoted
from ktx_cli.context.scan.profiling.model import ColumnProfile, ValueKind


def column_text(facts: TableFacts, column: Column) -> str | None:
    """Return the sentences about a column, None where there is nothing to say."""
    profile = facts.column_profiles().get(column.name)
    sentences = [_key_text(facts, column), *_reference_texts(facts, column), _unique_text(facts, column)]
    sentences += [_role_text(facts, column, profile), "Computed by the database." if column.generated else ""]
    if column.name not in facts.table.primary_key:
        sentences.append(empty_text(facts, profile))
    return " ".join(sentence for sentence in sentences if sentence) or None


def _key_text(facts: TableFacts, column: Column) -> str:
    key = facts.table.primary_key
    if column.name not in key:
        return ""
    return "Key of the table." if len(key) == 1 else f"Part of the key ({', '.join(map(quoted, key))})."


def _reference_texts(facts: TableFacts, column: Column) -> list[str]:
    return [_reference_text(facts, join) for join in facts.joins_out if column.name in join.child_columns]


def _reference_text(facts: TableFacts, join: Join) -> str:
    target = f"{physical_name(join.parent)} ({', '.join(map(quoted, join.parent_columns))})"
    if join.parent == facts.ref:
        target = f"another row of this table ({', '.join(map(quoted, join.parent_columns))})"
    if len(join.child_columns) == 1:
        return f"References {target}."
    *first, last = map(quoted, join.child_columns)
    return f"Together, {', '.join(first)} and {last} reference {target}."


def _unique_text(facts: TableFacts, column: Column) -> str:
    alone = any(key.columns == (column.name,) for key in facts.table.unique_keys)
    return "Unique." if alone and facts.table.primary_key != (column.name,) else ""


def _role_text(facts: TableFacts, column: Column, profile: ColumnProfile | None) -> str:
    """Return what a column is for: a flag, a date, a number in a unit, a code with its values."""
    if column.type is SemanticType.BOOLEAN:
        return "Flag: true or false."
    dated = date_text(column)
    if dated:
        years = years_text(facts, profile)
        return f"{dated}, {years}." if years else f"{dated}."
    measured = unit(facts, column)
    if measured:
        return f"Amount {measured}." if is_measure(facts, column) else f"Number {measured}."
    return _values(facts, column, profile)


def _values(facts: TableFacts, column: Column, profile: ColumnProfile | None) -> str:
    if is_linked(facts, column) or is_measure(facts, column):
        return ""
    if profile is None or not (profile.kind is ValueKind.TEXT or is_code(facts, column) or is_flag(column)):
        return ""
    said = values_text(facts, profile)
    if not said:
        return ""
    flag = is_flag(column) and profile.distinct is not None and profile.distinct <= 2
    role = "Flag" if flag else "Code" if is_code(facts, column) else ""
    if not role:
        return f"{said[0].upper()}{said[1:]}."
    return f"{role} with {said}." if said[0].isdigit() else f"{role}, {said}."
