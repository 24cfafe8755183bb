"""Values of columns in the searches of agents: all, those of whole code lists, or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.agent_tools.searcher import finder
from ktx_cli.engine.task import MOST_CODES, ValueSamples
from ktx_cli.project import KtxConfig, Layout, WorkingTree, Workspace
from ktx_cli.project.state import open_for_writing
from ktx_cli.scan.profile.store import save_values
from ktx_cli.scan.profile.values import Dictionary
from ktx_cli.search import Scope
from ktx_cli.semantic.manifest import ColumnValues
from ktx_cli.warehouses import TableRef
from tests.search.test_searcher import ORDERS, VALUES, Project

NOTE = ColumnValues(
    TableRef(None, "orders"), "note", tuple((f"shipped late {number}", 1) for number in range(MOST_CODES + 1)), True
)
CUT = ColumnValues(TableRef(None, "orders"), "region", (("shipped abroad", 1),), False)
STATUS = "orders.status = 'shipped'"


@pytest.mark.parametrize(
    ("privacy", "share", "found", "others"),
    [
        ("local", "declared", set(), False),
        ("local", "all", {STATUS}, False),
        ("strict", "all", set(), False),
        ("off", "declared", {STATUS, "orders.region = 'shipped abroad'"}, True),
    ],
)
def test_which_values_the_search_of_an_agent_finds(
    privacy: str, share: str, found: set[str], others: bool, tmp_path: Path
) -> None:
    project = Project(tmp_path)
    columns = "  - {name: note, type: string}\n  - {name: region, type: string}\n  - {name: card"
    project.write("semantic-layer/shop/orders.yaml", ORDERS.replace("  - {name: card", columns))
    project.values = (*VALUES, NOTE, CUT)
    config = KtxConfig.model_validate(
        {
            "connections": {"shop": {"driver": "sqlite", "path": "shop.sqlite"}},
            "scan": {"privacy": privacy, "share_code_lists": share},
        }
    )
    workspace = Workspace(WorkingTree(project.root))
    with open_for_writing(Layout(project.root)) as database:
        save_values(database, "shop", [], Dictionary(tuple(project.values)), privacy="local")
        searcher = project.searcher()
        find = finder(searcher, config, ValueSamples(database, codes=True))
        hits = find(workspace, "shipped", Scope(("value",)), 50).hits
        everything = find(workspace, "shipped", Scope(), 50).hits
        hidden = find(workspace, "4111111111111111", Scope(("value",)), 50).hits
        pages = find(workspace, "turnover", Scope(("page",)), 50).hits
        searcher.close()
    notes = {hit.id for hit in hits if hit.id.startswith("orders.note")}
    assert ({hit.id for hit in hits} - notes, bool(notes)) == (found, others)
    assert {hit.id for hit in everything if hit.kind == "value"} == found | notes
    assert hidden == () and {hit.kind for hit in pages} == {"page"}
