"""Time in SQL, the same in every dialect: reading, cutting, moving and listing periods, and the same in Python."""

from ktx_cli.context.semantic.time.calendar import later, period_of, periods
from ktx_cli.context.semantic.time.clock import DIALECTS, Clock, Kind, require_zone
from ktx_cli.context.semantic.time.cutting import truncate, within
from ktx_cli.context.semantic.time.expressions import DateOrTimestamp, literal
from ktx_cli.context.semantic.time.moving import next_period, shift
from ktx_cli.context.semantic.time.parsing import Moment, parse_moment, parse_range_value, parse_span
from ktx_cli.context.semantic.time.reading import compared, is_number, localize
from ktx_cli.context.semantic.time.spines import PERIOD, capacity, overflow, spine

__all__ = [
    "DIALECTS",
    "PERIOD",
    "Clock",
    "DateOrTimestamp",
    "Kind",
    "Moment",
    "capacity",
    "compared",
    "is_number",
    "later",
    "literal",
    "localize",
    "next_period",
    "overflow",
    "parse_moment",
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
