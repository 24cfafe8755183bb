"""A wiki in memory, and a semantic layer its pages may refer to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from ktx_cli.core.diagnostics import Diagnostic, Severity
from ktx_cli.semantic.model import Column, Measure, Model, Place, Segment, Source, Visibility
from ktx_cli.warehouses.port import SemanticType


class Files:
    """A tree of texts; `reads` counts what was asked of each."""

    def __init__(self, files: Mapping[str, str | bytes]) -> None:
        self.files = {path: text.encode() if isinstance(text, str) else text for path, text in files.items()}
        self.reads: list[str] = []

    def read(self, path: str) -> bytes | None:
        self.reads.append(path)
        return self.files.get(path)

    def paths(self, prefix: str) -> list[str]:
        return sorted(path for path in self.files if path.startswith(prefix))


MakeTree = Callable[[Mapping[str, str | bytes]], Files]


@pytest.fixture
def tree() -> MakeTree:
    """Return a function that makes a tree: key of a global page, or whole path -> text."""
    return lambda texts: Files({key if "/" in key else f"wiki/global/{key}.md": text for key, text in texts.items()})


def source(name: str, *columns: str, table: tuple[str, ...] | None = None) -> Source:
    return Source(name, {each: Column(each, SemanticType.STRING) for each in columns}, ("id",), table=table or (name,))


@pytest.fixture
def models() -> dict[str, Model]:
    """Two layers: both have `customers`, of which only the one of `crm` has a `vip`."""
    orders = Source(
        "orders",
        {each: Column(each, SemanticType.NUMBER) for each in ("id", "amount", "Status")},
        ("id",),
        table=("shop", "public", "orders"),
        measures={"revenue": Measure("revenue", "sum(amount)")},
        segments={"paid": Segment("paid", "Status = 'paid'")},
    )
    secret = Source("payroll", {}, ("id",), table=("payroll",), visibility=Visibility.HIDDEN)
    broken = Diagnostic(
        "x", Severity.ERROR, "no such column", Place("semantic-layer/warehouse/lines.yaml", object="lines")
    )
    sources = {
        each.name: each for each in (orders, source("customers", "id", "name"), source("odd.name", "id"), secret)
    }
    crm = {"customers": source("customers", "id", "vip")}
    return {"warehouse": Model("warehouse", "duckdb", sources, (broken,)), "crm": Model("crm", "duckdb", crm)}


@pytest.fixture
def page_text() -> Callable[..., str]:
    """Return a function that writes a page: its body, and further lines of its front matter."""
    return lambda body="Text.\n", *lines: "\n".join(["---", "summary: What it says.", *lines, "---", "", body])
