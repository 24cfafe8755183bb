"""Says in one line why an edge is what it is."""

from __future__ import annotations

from ktx_cli.context.scan.names import quoted
from ktx_cli.context.scan.relationships.facts import ColumnFacts
from ktx_cli.context.scan.relationships.model import Check, EdgeStatus
from ktx_cli.context.scan.relationships.pairs import Pair


def reason_of(pair: Pair, check: Check | None, status: EdgeStatus) -> str:
    """Return what speaks for and against an edge."""
    parts = [_values(pair, check), _name(pair)]
    if status is EdgeStatus.REVIEW and pair.empty:
        parts.append("the rows cannot tell")
    return "; ".join(part for part in parts if part)


def named(column: ColumnFacts) -> str:
    """Return a column as edges name it: `orders.id`, in double quotes what is no plain word."""
    ref = column.table.table.ref
    parts = (ref.name, column.name) if ref.schema is None else (ref.schema, ref.name, column.name)
    return ".".join(map(quoted, parts))


def _values(pair: Pair, check: Check | None) -> str:
    if check is None:
        return "no values to compare" if pair.empty else "the values could not be compared"
    found = found_of(check) + _but_blank(pair)
    return found if check.exact else f"{found} (sample)"


def _but_blank(pair: Pair) -> str:
    """Return which value was taken for NULL, and how many rows have it: ` but 99999 (1,000 rows)`."""
    if pair.overlap is None or pair.overlap.blank is None:
        return ""
    blank, rows, sample = pair.overlap.blank, pair.overlap.blank_rows, pair.child.profile.filled
    value = f'"{blank.strip().lower()}"' if isinstance(blank, str) else f"{blank}"
    share = f"{rows * 1000 // sample / 10:g} % of the sample"
    many = f"{rows:,} {'row' if rows == 1 else 'rows'}" if pair.child.table.complete else share
    return f" but {value} ({many})"


def _name(pair: Pair) -> str:
    if pair.named.key >= 0.85:
        return "named as the key is"
    if pair.named.table >= 0.75:
        return "named after the table"
    if pair.named.best >= 0.4:
        return "the name is near"
    return "the name may mean the table" if pair.named.meaning else "the name says nothing"


def found_of(check: Check) -> str:
    """Return how many rows find their parent."""
    return "every value is found" if not check.missing else f"{_share(check)} of rows are found"


def _share(check: Check) -> str:
    """Return the share that is found as per cent, never rounded up to all of it: `99.9 %`."""
    return f"{(check.rows - check.missing) * 1000 // check.rows / 10:g} %"
