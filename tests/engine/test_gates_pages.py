"""The gates at the end of a run: what pages name must exist, and what agents wrote holds nothing private."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ktx_cli.agent_tools import Layers
from ktx_cli.engine.gates import Gates
from ktx_cli.project.layout import EmptyTree
from ktx_cli.project.workspace import Workspace
from ktx_cli.semantic import CalendarSettings

MANIFEST = """\
tables:
  orders:
    table: orders
    columns:
      - {name: id, type: number, pk: true}
      - {name: amount, type: number}
"""
BASE = {
    "semantic-layer/shop/_schema/main.yaml": MANIFEST,
    "semantic-layer/shop/orders.yaml": "name: orders\nmeasures:\n  - {name: revenue, expr: sum(amount)}\n",
    "wiki/global/old.md": "---\nsummary: Old.\n---\n\n`orders.ghost` is what jane.doe@acme.com counts.\n",
}


def tree(files: Mapping[str, str], below: Workspace | None = None) -> Workspace:
    made = Workspace(EmptyTree()) if below is None else below.child()
    made.apply(files)
    return made


@pytest.mark.table(
    ("files", "found"),
    [
        ({"wiki/global/a.md": "See `orders.revenue` and `measure:revenue`."}, []),
        ({"wiki/global/a.md": "`measure:orders.margin`"}, ["dangling_entity"]),
        ({"wiki/global/a.md": "`measure:order_lines.margin`"}, ["dangling_source"]),
        ({"wiki/global/a.md": "`orders.margin` [[nothing]]"}, ["dangling_entity", "dangling_page"]),
        ({"wiki/global/a.md": "Ask jane.doe@acme.com."}, ["personal_data"]),
        ({"wiki/global/a.md": "password: hunter2hunter2"}, ["secret"]),
        ({"wiki/global/a.md": "See https://evil.example, finance@acme.com."}, []),
        ({"wiki/global/old.md": "`orders.ghost` is what jane.doe@acme.com counted."}, []),
        ({"wiki/global/old.md": "`orders.ghost`: jane.doe@acme.com, tom@acme.com"}, ["personal_data"]),
        ({"semantic-layer/shop/orders.yaml": "name: orders\nmeasures: []\n"}, []),
        ({"wiki/global/a.md": "", "semantic-layer/shop/orders.yaml": "name: orders\nmeasures: []\n"}, []),
    ],
)
def test_the_end_gate_refuses_what_the_tools_refuse(files: dict[str, str], found: list[str]) -> None:
    base = tree(BASE)
    pages = {
        path: f"---\nsummary: S.\n---\n\n{text}\n" if path.startswith("wiki") else text for path, text in files.items()
    }
    after = tree(pages, base)
    gates = Gates(base, Layers({"shop": "sqlite"}, CalendarSettings(), None))
    touched = frozenset(after.changes())
    assert sorted(each.code for each in gates.everything(after, touched, touched)) == found
    private = {"personal_data", "secret"}
    assert sorted(each.code for each in gates.everything(after, touched)) == [
        each for each in found if each not in private
    ]


def test_a_page_that_nobody_touched_is_held_to_names_of_a_kind_too() -> None:
    base = tree({**BASE, "wiki/global/a.md": "---\nsummary: S.\n---\n\n`measure:orders.revenue`\n"})
    after = tree(
        {"semantic-layer/shop/orders.yaml": "name: orders\nmeasures:\n  - {name: sales, expr: sum(amount)}\n"}, base
    )
    gates = Gates(base, Layers({"shop": "sqlite"}, CalendarSettings(), None))
    assert [(each.path, each.code) for each in gates.everything(after, after.changes())] == [
        ("wiki/global/a.md", "dangling_entity")
    ]
