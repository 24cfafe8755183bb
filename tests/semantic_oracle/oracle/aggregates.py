"""Aggregates over the values a group has, exact where numbers are."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.semantic_oracle.oracle.errors import OracleError


def aggregate(name: str, values: Sequence[Any], *, distinct: bool = False, share: Any = None) -> Any:
    """Aggregate values (NULLs among them are left out); `share` is the p of a percentile, 0 to 1."""
    kept = [value for value in values if value is not None]
    if distinct:
        kept = list(dict.fromkeys(kept))
    if name == "count":
        return len(kept)
    if not kept:
        return None
    return _over(name, kept, share)


def _over(name: str, kept: list[Any], share: Any) -> Any:
    if name == "sum":
        return sum(kept)
    if name == "avg":
        return _divided(sum(kept), len(kept))
    if name in ("min", "max"):
        return min(kept) if name == "min" else max(kept)
    if name in ("median", "percentile"):
        return _percentile(kept, Fraction(1, 2) if name == "median" else share)
    if name in ("stddev", "stddev_samp", "variance", "var_samp"):
        return _spread(kept, root=name.startswith("stddev"))
    raise OracleError("query", f"the oracle has no aggregate `{name}`")


def _divided(total: Any, count: int) -> Any:
    return total / count if isinstance(total, float) else Fraction(total) / count


def _percentile(kept: list[Any], share: Any) -> Any:
    """Interpolate between the two values nearest to the share, as `percentile_cont`."""
    ordered = sorted(kept)
    place = Fraction(share) * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _spread(kept: list[Any], *, root: bool) -> float | None:
    if len(kept) < 2:
        return None
    mean = _divided(sum(kept), len(kept))
    variance = float(sum((value - mean) ** 2 for value in kept)) / (len(kept) - 1)
    return float(variance**0.5) if root else variance
