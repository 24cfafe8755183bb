"""Patterns cut into files: each file as large as it was foretold, none too large, none lost."""

from __future__ import annotations

import json
import random
from typing import Any

from ktx_cli.sources.query_history.raw_files import MAX_BYTES, pattern_files


def patterns(count: int, longest: int) -> list[dict[str, Any]]:
    chosen = random.Random(count)
    return [
        {
            "id": f"{chosen.getrandbits(64):016x}",
            "tables": [f"t{n % 3}", "u"],
            "sql": "é\n" * chosen.randint(0, longest),
        }
        for n in range(count)
    ]


def test_no_file_is_too_large_and_every_pattern_is_in_one() -> None:
    given = patterns(400, 2_000)
    files, too_large = pattern_files(given)
    assert too_large == ()
    assert len(files) > 10
    assert max(map(len, files.values())) <= MAX_BYTES
    found = [each["id"] for content in files.values() for each in json.loads(content)["patterns"]]
    assert sorted(found) == sorted(each["id"] for each in given)


def test_a_file_is_cut_only_where_it_would_be_too_large() -> None:
    """Two patterns of the same tables fill a file to its last byte, and one byte more cuts it."""
    pair = [{"id": each, "tables": ["t", "u"], "sql": ""} for each in ("a", "b")]
    (small,) = pattern_files(pair)[0].values()
    room = MAX_BYTES - len(small)
    full, over = ([{**pair[0], "sql": "x" * size}, pair[1]] for size in (room, room + 1))
    assert [len(each) for each in pattern_files(full)[0].values()] == [MAX_BYTES]
    assert len(pattern_files(over)[0]) == 2


def test_what_fits_no_file_is_named() -> None:
    given = [*patterns(3, 5), {"id": "large", "tables": ["t"], "sql": "x" * MAX_BYTES}]
    files, too_large = pattern_files(given)
    assert too_large == ("large",)
    assert sum(len(json.loads(content)["patterns"]) for content in files.values()) == 3
