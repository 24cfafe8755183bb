"""What agents change passes the gates of a run on the final tree, the tested numbers among them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.testing.model_script import Call, calls, says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import Agents, git, page, states, units, usual

Run = Callable[..., Any]

ORDERS = "semantic-layer/shop/orders.yaml"
TESTED = """\
name: orders
measures:
  - name: revenue
    expr: {expr}
tests:
  - name: all_of_it
    query: {{measures: [orders.revenue]}}
    expect_value: 15
"""


def written(expr: str) -> list[Any]:
    """Return the turns of a unit that writes the measure in another way."""
    return [
        calls(Call("entity_details", {"targets": ["orders"]}), Call("sl_read_source", {"source": "orders"})),
        calls(
            Call("sl_write_source", {"connection": "shop", "source": "orders", "yaml": TESTED.format(expr=expr)}),
            page("refunds"),
        ),
        says("done"),
    ]


@pytest.fixture
def tested(ktx: Run, company: Path, configure: Run, model_server: ModelServer) -> Path:
    """A project in which a person has said what revenue is, with a test."""
    configure()
    assert ktx("ingest", "--no-llm").code == 0
    (company / ORDERS).write_text(TESTED.format(expr="sum(amount)"))
    git(company, "add", ORDERS)
    git(company, "-c", "user.name=me", "-c", "user.email=me@example.com", "commit", "-qm", "revenue")
    configure("refunds", "stock")
    return company


def test_a_unit_that_changes_a_tested_number_waits(ktx: Run, tested: Path, model_server: ModelServer) -> None:
    model_server.play(Agents(refunds=written("sum(amount) filter (where paid = 1)")))
    answer = ktx("ingest", "--json")
    assert answer.code == 7, answer
    found = units(answer)
    assert (found["refunds.md"]["status"], found["stock.md"]["status"]) == ("quarantined", "done")
    assert "the test `all_of_it` of `orders` fails: got 10.0, expected 15" in found["refunds.md"]["reason"]
    assert states(tested) == {"refunds.md": "failed", "stock.md": "done"}
    assert (tested / ORDERS).read_text() == TESTED.format(expr="sum(amount)")
    assert not (tested / "wiki/global/refunds.md").exists()
    asked = [request for request in model_server.model_calls if "The final checks of this run" in str(request.body)]
    assert asked, "the model was asked to set it right"


def test_a_tested_number_may_be_said_in_another_way(ktx: Run, tested: Path, model_server: ModelServer) -> None:
    model_server.play(Agents(refunds=written("sum(amount * 1)"), stock=usual("stock")))
    answer = ktx("ingest", "--json")
    assert answer.code == 0, answer
    assert "sum(amount * 1)" in (tested / ORDERS).read_text()


def test_tests_that_cannot_run_are_a_warning(ktx: Run, tested: Path, model_server: ModelServer) -> None:
    def offline(request: Any) -> Any:
        (tested / "shop.sqlite").unlink(missing_ok=True)
        return agents(request)

    agents = Agents(refunds=written("sum(amount * 1)"))
    model_server.play(offline)
    answer = ktx("ingest", "--json")
    assert [each["code"] for each in answer.envelope["warnings"]].count("tests_not_run") == 1
    (unchecked,) = [each for each in answer.envelope["warnings"] if each["code"] == "not_checked"]
    assert "connection `shop`: not checked on the database: measure `revenue` of `orders`" in unchecked["message"]
