"""Describes a generated corpus: python -m benchmarks.relationship_fixtures.describe [COUNT] [SEED]

Prints how many tables, columns and rows its databases have and which shares of styles, languages, keys and links, so
that a reader can judge the variety.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from statistics import median

from benchmarks.relationship_fixtures.generate import Fixture, generate_corpus
from benchmarks.relationship_fixtures.rewriting import open_read_only, shapes
from benchmarks.relationship_fixtures.truth import Reference
from benchmarks.relationship_fixtures.writing import quoted

_NOTES = ("kind", "layout", "key_kind", "language", "case", "naming", "abbreviation", "own_prefix", "types")


def main(arguments: list[str]) -> None:
    """Make a corpus in a temporary folder and print what is in it."""
    count, seed = (int(text) for text in (arguments + ["60", "1"][len(arguments) :])[:2])
    with tempfile.TemporaryDirectory() as folder:
        for line in describe(generate_corpus(Path(folder), count, seed)):
            print(line)


def describe(corpus: list[Fixture]) -> list[str]:
    """Return the lines that describe a corpus; its folders must still be there."""
    lines = [f"{len(corpus)} databases", *_sizes(corpus), ""]
    lines += [_shares(note, (str(fixture.notes.get(note, "-")) for fixture in corpus)) for note in _NOTES]
    lines.append(_shares("convention", (str(fixture.notes.get("convention", "-")) for fixture in corpus)))
    lines.append(_shares("domain", (domain for fixture in corpus for domain in fixture.notes.get("domains", ()))))
    links = [link for fixture in corpus for link in fixture.truth.links]
    lines += ["", _shares(f"{len(links)} links", (_link_kind(link) for link in links))]
    silent = sum(len(fixture.truth.unconfirmable) for fixture in corpus)
    optional = sum(len(fixture.truth.optional) for fixture in corpus)
    keys = [key for fixture in corpus for key in fixture.truth.primary_keys]
    lines.append(f"no row shows {silent} of them; {optional} more are true and optional (views, copies)")
    lines.append(_shares(f"{len(keys)} keys of columns", (str(len(key.columns)) for key in keys)))
    return lines


def _sizes(corpus: list[Fixture]) -> list[str]:
    found = [_counts(fixture.folder) for fixture in corpus]
    names = ("tables", "columns", "rows", "empty tables", "rows of the largest table")
    return [
        f"{name}: median {median(values):g}, least {min(values)}, most {max(values)}, together {sum(values)}"
        for name, values in zip(names, zip(*found, strict=True), strict=True)
    ]


def _counts(folder: Path) -> tuple[int, int, int, int, int]:
    with closing(open_read_only(folder)) as connection:
        tables = shapes(connection)
        rows = [connection.execute(f"SELECT count(*) FROM {quoted(table.name)}").fetchone()[0] for table in tables]
    return len(tables), sum(len(table.columns) for table in tables), sum(rows), rows.count(0), max(rows, default=0)


def _link_kind(link: Reference) -> str:
    if link.child == link.parent:
        return "to itself"
    if len(link.child_columns) > 1:
        return f"of {len(link.child_columns)} columns"
    if link.child_columns == link.parent_columns:
        return "of the same name"
    child, parent = link.child_columns[0].lower().replace("_", ""), link.parent.lower().replace("_", "")
    return "named after the table" if parent[:4] in child or child[:4] in parent else "named otherwise"


def _shares(title: str, values: Iterable[str]) -> str:
    counted = Counter(values)
    total = sum(counted.values())
    shown = ", ".join(f"{value} {100 * count / total:.0f} %" for value, count in counted.most_common(45))
    return f"{title}: {shown}"


if __name__ == "__main__":
    main(sys.argv[1:])
