"""Runs statements on fakesnow, whose packages need an environment of their own; reads and prints JSON.

In: {"tables": [statement, ...], "queries": {name: statement}}. Out: {name: [[value, ...], ...] or the error's text}.
"""

from __future__ import annotations

import json
import sys
import warnings
from decimal import Decimal


def main() -> None:
    warnings.simplefilter("ignore")
    import fakesnow
    import snowflake.connector

    asked = json.load(sys.stdin)
    found = {}
    with fakesnow.patch():
        cursor = snowflake.connector.connect(database="golden", schema="public").cursor()
        for statement in asked["tables"]:
            cursor.execute(statement)
        for name, query in asked["queries"].items():
            try:
                found[name] = [[_plain(value) for value in row] for row in cursor.execute(query).fetchall()]
            except snowflake.connector.errors.Error as error:
                found[name] = str(error)
    json.dump(found, sys.stdout)


def _plain(value):
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat(" ") if hasattr(value, "hour") else value.isoformat() if hasattr(value, "day") else value


if __name__ == "__main__":
    main()
