"""Says in one line why an edge is what it is."""

from __future__ import annotations

from ktx_cli.context.scan.relationships.model import Check, EdgeStatus
from ktx_cli.context.scan.relationships.pairs import Pair


def reason_of(pair: Pair, check: Check | None, status: EdgeStatus) -> str:
    """Return what speaks for and against an edge."""
    parts = [_values(pair, check), _name(pair)]
    if status is EdgeStatus.REVIEW and check is None:
        parts.append("the rows cannot tell")
    return "; ".join(part for part in parts if part)


def _values(pair: Pair, check: Check | None) -> str:
    if check is None or pair.overlap is None:
        return "no values to compare"
    if not check.missing:
        found = "every value is found"
    else:
        found = f"{share(1 - check.violations)} of rows are found"
    return found if check.exact else f"{found} (sample)"


def _name(pair: Pair) -> str:
    if pair.named.key >= 0.85:
        return "named as the key is"
    if pair.named.table >= 0.75:
        return "named after the table"
    return "the name is near" if pair.named.best >= 0.4 else "the name says nothing"


def share(value: float) -> str:
    """Return a share as per cent, never rounded up to all of it: `99.9 %`."""
    return f"{int(value * 1000) / 10:g} %"
