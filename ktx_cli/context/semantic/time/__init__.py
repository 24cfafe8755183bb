"""Time in SQL, the same in every dialect: reading, cutting, moving and listing periods, and the same in Python."""

from ktx_cli.context.semantic.time.calendar import later, period_of, periods
from ktx_cli.context.semantic.time.clock import DIALECTS, Clock, Kind, require_zone
from ktx_cli.context.semantic.time.cutting import truncate, within
from ktx_cli.context.semantic.time.expressions import DateOrTimestamp, literal
from ktx_cli.context.semantic.time.moving import next_period, shift
from ktx_cli.context.semantic.time.parsing import parse_range_value, parse_span
from ktx_cli.context.semantic.time.reading import localize
from ktx_cli.context.semantic.time.spines import PERIOD, capacity, overflow, spine

__all__ = [
    "DIALECTS",
    "PERIOD",
    "Clock",
    "DateOrTimestamp",
    "Kind",
    "capacity",
    "later",
    "literal",
    "localize",
    "next_period",
    "overflow",
    "parse_range_value",
    "parse_span",
    "period_of",
    "periods",
    "require_zone",
    "shift",
    "spine",
    "truncate",
    "within",
]
