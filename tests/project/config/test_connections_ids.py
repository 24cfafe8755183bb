from __future__ import annotations

import re

import pytest

from ktx_cli.core.errors import ConfigError
from ktx_cli.core.text import is_device_name
from ktx_cli.project.config.connections import DEVICE_PATTERN, ID_PATTERN, RESERVED_IDS, example_connection
from ktx_cli.project.config.file import check_connection

FIELDS = {"driver": "sqlite", "path": "x.sqlite"}


@pytest.mark.table("connection", ["a" * 100, "A-1_b", "console", "com10"])
def test_ids_that_may_be(connection: str) -> None:
    check_connection(connection, FIELDS)
    assert re.search(ID_PATTERN, connection) and not re.search(DEVICE_PATTERN, connection)
    assert f" {connection} " in example_connection(connection)


@pytest.mark.table(
    ("connection", "said"),
    [("a" * 101, "101 characters"), ("x" * 300, "300 characters"), *((n, "a device") for n in ("con", "NUL", "LPT1"))],
)
def test_ids_that_may_not_be(connection: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        check_connection(connection, FIELDS)
    assert caught.value.hint
    assert not re.search(ID_PATTERN, connection) or re.search(DEVICE_PATTERN, connection)
    assert " warehouse " in example_connection(connection)


def test_the_longest_id_fits_into_every_file_name() -> None:
    longest = "a" * 100
    assert len(f".manifest-{longest}.json.01234567.ktx-tmp".encode()) <= 255


def test_the_two_lists_of_devices_are_one() -> None:
    names = [a + b for a in ("con", "prn", "aux", "nul", "com", "lpt") for b in ("", "0", "1", "9", "x")]
    assert [n for n in names if is_device_name(n)] == [n for n in names if re.search(DEVICE_PATTERN, n)]
    assert not any(map(is_device_name, RESERVED_IDS))
