"""Messages hold plain values, exactly, and nothing that could run."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import StrEnum
from typing import Any

import pytest

from ktx_cli.warehouses.worker import wire
from ktx_cli.warehouses.worker.wire import WireError, packed, plain, unpacked


class Colour(StrEnum):
    RED = "red"


VALUES: list[Any] = [
    None, True, 0, -1, 2**63, 2**127 - 1, 1.5, math.inf, -0.0, "", "Größe 🛒", "\ud800", b"\x00\xff",
    Decimal("1.10"), Decimal("-1E+40"), Decimal("NaN"),
    date(2024, 2, 29), datetime(2024, 1, 2, 3, 4, 5, 6), datetime(2024, 1, 2, tzinfo=UTC),
    time(10, 20, 30, 40), time(10, tzinfo=timezone(timedelta(hours=2))), timedelta(days=-3, microseconds=1),
    uuid.UUID(int=5), [1, [2, {"a": (3, None)}]], {"k": [date(2024, 1, 1)]}, (1, "x"),
]  # fmt: skip


def sent(value: Any) -> Any:
    return unpacked(packed(value)[4:])


@pytest.mark.table("value", VALUES)
def test_a_value_arrives_as_it_was(value: Any) -> None:
    found = sent(value)
    assert type(found) is type(value)
    assert repr(found) == repr(value)


def test_no_number_stays_none() -> None:
    assert math.isnan(sent(math.nan))


class Evil:
    def __init__(self, *what: Any) -> None:
        self.what = what

    def __reduce__(self) -> Any:
        return self.what


class Changed:
    """Makes a message that would set an attribute of what `find_class` returns."""

    def __reduce__(self) -> Any:
        return wire._uuid, (b"\0" * 16,), (None, {"hex": "evil"})


@pytest.mark.table(
    "what",
    [
        Evil(os.system, ("true",)),
        Evil(eval, ("1",)),
        Evil(getattr, (1, "real")),
        Evil(subprocess.Popen, (["true"],)),
        Evil(uuid.UUID, ("0" * 32,)),
        Evil(pickle.loads, (b"N.",)),
        Evil(wire.unpacked, (b"N.",)),
        Evil(__import__, ("os",)),
        object(),
        datetime,
        Colour.RED,
    ],
)
def test_what_is_no_plain_value_is_not_read(what: Any) -> None:
    message = pickle.dumps(what, protocol=5)
    if what is datetime:
        assert unpacked(message) is datetime  # a class that only makes values
        return
    with pytest.raises(WireError):
        unpacked(message)


def test_a_message_changes_nothing_of_what_makes_values() -> None:
    before = dict(vars(uuid.UUID))
    with pytest.raises(WireError):
        # The state goes to the UUID that was made, which takes none of that form.
        unpacked(pickle.dumps(Changed(), protocol=5))
    assert dict(vars(uuid.UUID)) == before
    # The same for what makes them: its name, the state (None, {"x": 1}), and the opcode that gives it this state.
    name = pickle.dumps(wire._uuid, protocol=5).removesuffix(b".")
    state = pickle.dumps((None, {"x": 1}), protocol=0).removesuffix(b".")
    assert callable(unpacked(name + b"."))
    with pytest.raises(WireError):
        unpacked(name + state + b"b.")


@pytest.mark.table("data", [b"", b"\x80\x05", b"junk", b"\x80\x05]\x94(K\x01"])
def test_half_a_message_is_an_error(data: bytes) -> None:
    with pytest.raises(WireError):
        unpacked(data)


def test_parameters_become_plain() -> None:
    found = plain([Colour.RED, True, (1, 2), {"a": bytearray(b"x")}, Decimal("1.5"), uuid.UUID(int=1)])
    assert found == ["red", True, [1, 2], {"a": b"x"}, Decimal("1.5"), uuid.UUID(int=1)]
    assert type(found[0]) is str
    assert type(found[1]) is bool
    with pytest.raises(WireError, match="object"):
        plain(object())
