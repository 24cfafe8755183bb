"""What people hid stays hidden behind the database's own views, in a run that sees them for the first time."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.testing.model_script import Call, calls, says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import Agents, git

Run = Callable[..., Any]
HIDDEN = "name: customers\ncolumn_overrides: [{name: name, visibility: hidden}]\n"
VIEWS = """
INSERT INTO customers VALUES (3, 'zebediah');
CREATE VIEW labels AS SELECT id, name AS label FROM customers;
CREATE VIEW people AS SELECT id FROM customers;
"""


@pytest.mark.parametrize("hidden", [True, False])
def test_a_view_of_a_hidden_column_is_not_read(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer, hidden: bool
) -> None:
    configure("refunds")
    settings = (company / "ktx.yaml").read_text()
    (company / "ktx.yaml").write_text(settings.replace("scan:\n", "scan:\n  privacy: 'off'\n"))
    assert ktx("ingest", "--no-llm").code == 0
    with contextlib.closing(sqlite3.connect(company / "shop.sqlite")) as database:
        database.executescript(VIEWS)
    if hidden:
        (company / "semantic-layer/shop/customers.yaml").write_text(HIDDEN)
        git(company, "add", "semantic-layer")
        git(company, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "hide names")
    asked = [
        Call("sql_execution", {"sql": f"SELECT {what}"}) for what in ("max(id) AS top FROM people", "* FROM labels")
    ]
    model_server.play(Agents(refunds=[calls(asked[0]), calls(asked[1]), says("done")]))
    ktx("ingest")
    told = json.dumps([each.body["messages"] for each in model_server.model_calls])
    assert "| top |" in told
    assert ("`labels` is a view that reads `customers`" in told) is hidden
    assert ("zebediah" in told) is not hidden
