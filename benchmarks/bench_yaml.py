"""Reading and writing manifest shards, against PyYAML's C classes with YAML 1.1 rules.

Prints wall seconds for 1,000, 5,000 and 20,000 columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import yaml as pyyaml

from ktx_cli.core import yaml


def shard(columns: int) -> dict[str, Any]:
    return {
        "tables": {
            f"table_{t}": {
                "table": f"shop.table_{t}",
                "columns": [
                    {"name": f"column_{c}", "type": "number", "descriptions": {"db": f"What column {c} means: text"}}
                    for c in range(50)
                ],
            }
            for t in range(columns // 50)
        }
    }


def seconds(call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(2):
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
    return best


def main() -> None:
    print(f"{'columns':>8}{'dump':>9}{'C dumper':>10}{'ratio':>7}{'load':>9}{'C loader':>10}{'ratio':>7}")
    for columns in (1_000, 5_000, 20_000):
        data = shard(columns)
        text = yaml.dump(data)
        assert yaml.load(text, where="shard") == data
        dump = seconds(lambda: yaml.dump(data))  # noqa: B023 - called at once
        c_dump = seconds(lambda: pyyaml.dump(data, Dumper=pyyaml.CSafeDumper, sort_keys=False))  # noqa: B023
        load = seconds(lambda: yaml.load(text, where="shard"))  # noqa: B023
        c_load = seconds(lambda: pyyaml.load(text, Loader=pyyaml.CSafeLoader))  # noqa: B023
        print(
            f"{columns:>8}{dump:>8.3f}s{c_dump:>9.3f}s{dump / c_dump:>6.2f}x"
            f"{load:>8.3f}s{c_load:>9.3f}s{load / c_load:>6.2f}x"
        )


if __name__ == "__main__":
    main()
