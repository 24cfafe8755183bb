"""Writes the SQL of every question in every dialect: python -m tests.semantic.golden.write"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from pathlib import Path

from ktx_cli.semantic.answer import compile_query
from ktx_cli.semantic.caller import Caller
from ktx_cli.warehouses.dialect import DIALECTS
from tests.semantic.golden.questions import QUESTIONS
from tests.semantic.golden.world import ATTRIBUTES, NOW, shop_model

FOLDER = Path(__file__).parent / "sql"


@functools.cache
def statement(name: str, dialect: str) -> str:
    """Return the SQL of a question in a dialect."""
    return compile_query(shop_model(dialect), QUESTIONS[name], caller=Caller.of(ATTRIBUTES), now=NOW).sql


def parts_of(name: str, dialects: Iterable[str] = DIALECTS) -> list[str]:
    """Return what is kept of a question: itself, then its statement in each dialect."""
    kept = [f"-- {json.dumps(QUESTIONS[name], ensure_ascii=False)}"]
    return kept + [f"-- {dialect}\n{statement(name, dialect)};" for dialect in dialects]


def as_file(name: str) -> str:
    """Return the file of a question."""
    return "\n\n".join(parts_of(name)) + "\n"


def main() -> None:
    """Write all files, and remove those of questions that are no more."""
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.sql"):
        if path.stem not in QUESTIONS:
            path.unlink()
    for name in QUESTIONS:
        (FOLDER / f"{name}.sql").write_text(as_file(name), encoding="utf-8")
    print(f"{len(QUESTIONS)} questions in {len(DIALECTS)} dialects")


if __name__ == "__main__":
    main()
