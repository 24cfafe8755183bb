"""`ktx ingest` of a query history with agents: what they say of it is written as `usage` and pages of the wiki."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.testing.model_script import Call, ModelRequest, Reply, calls, gives, says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import git

Run = Callable[..., Any]

CONFIG = """\
llm:
  provider:
    backend: anthropic
    anthropic: {{base_url: '{url}', api_key: 'env:SCRIPTED_KEY'}}
  models: {{default: claude-sonnet-5-5}}
scan:
  enrichment: {{mode: none}}
connections:
  shop:
    driver: sqlite
    path: shop.sqlite
    context: {{queryHistory: {{enabled: true, file: asked.sql, minExecutions: 1, staleArchiveAfterDays: 30}}}}
"""

ASKED = """\
-- user: ann executions: 40
SELECT c.name, SUM(o.amount) FROM orders AS o JOIN customers AS c ON c.id = o.customer_id GROUP BY c.name;
-- user: ann executions: 30
SELECT paid, COUNT(*) FROM orders GROUP BY paid;
"""
PAGE = "wiki/global/queries-revenue-by-customer.md"
MANIFEST = "raw-sources/shop/query-history/manifest.yaml"


def analyst(request: ModelRequest) -> Reply:
    """Read the file of a unit, say what it is about, end."""
    text = json.dumps(request.body["messages"])
    if "You explain to analysts" in request.system:
        named = re.findall(r'\\"table\\": \\"(.+?)\\"', text)
        return gives({"tables": [{"table": name, "narrative": "People add up what is sold."} for name in named]})
    found = re.search(r"(tables|patterns)/[\w.-]+\.json", text)
    if found is None or "This run has " in text:
        return says("ok")
    path = found[0]
    if "emit_historic_sql_evidence" in text:
        return says("done")
    if "tool_result" not in text:
        return calls(Call("read_raw_file", {"path": path}))
    return calls(Call("emit_historic_sql_evidence", {"raw_path": path, "evidence": evidence(path, text)}))


def evidence(path: str, text: str) -> dict[str, Any]:
    if path.startswith("tables/"):
        table = re.search(r'\\+"table\\+": \\+"(.+?)\\+"', text)
        assert table is not None, text
        return {"kind": "table_usage", "table": table[1], "narrative": "People add up what is sold."}
    ids = re.findall(r'\\+"id\\+": \\+"(.+?)\\+"', text)
    return {
        "kind": "pattern",
        "slug": "revenue-by-customer",
        "title": "How much does each customer buy?",
        "narrative": "Amounts are summed by customer.",
        "fingerprints": list(dict.fromkeys(ids)),
        "sl_refs": ["orders"],
    }


@pytest.fixture
def asked(company: Path, model_server: ModelServer) -> Path:
    (company / "ktx.yaml").write_text(CONFIG.format(url=model_server.url))
    (company / "asked.sql").write_text(ASKED)
    model_server.play(analyst)
    return company


def shard(project: Path) -> dict[str, Any]:
    (path,) = (project / "semantic-layer/shop/_schema").rglob("*.yaml")
    document: dict[str, Any] = yaml.load(path.read_bytes(), where=str(path))
    return document["tables"]


def test_what_agents_say_becomes_usage_and_a_page(ktx: Run, asked: Path, model_server: ModelServer) -> None:
    answer = ktx("ingest", "--json")
    assert answer.code == 0, answer
    assert shard(asked)["orders"]["usage"]["narrative"] == "People add up what is sold."
    text = (asked / PAGE).read_text()
    assert "summary: How much does each customer buy?" in text
    assert "sl_refs:\n- orders" in text or "sl_refs:\n  - orders" in text
    manifest = (asked / MANIFEST).read_text()
    assert "wiki:queries-revenue-by-customer" in manifest
    assert answer.data["sources"][0]["pages"] == {"queries-revenue-by-customer": "created"}
    for args in (("wiki", "lint"), ("lint",)):
        found = ktx(*args, "--json").data["findings"]
        assert [each for each in found if each["code"] in ("secret", "KTX220")] == [], args
    head = git(asked, "rev-parse", "HEAD")
    model_server.play([])
    assert ktx("ingest").code == 0
    assert (git(asked, "rev-parse", "HEAD"), model_server.requests) == (head, [])


def test_the_forecast_tells_texts_about_tables_from_the_work_of_agents(ktx: Run, asked: Path) -> None:
    plan = ktx("ingest", "--dry-run", "--json").data
    ahead = plan["forecast"]
    assert (ahead["units"], ahead["tables"], ahead["table_calls"]) == (1, 2, 1)
    assert plan["sources"][0]["planned_units"] == 1
    text = ktx("ingest", "--dry-run").out
    assert "run agents on\t1 work unit\n" in text and "describe\t2 tables\n" in text
    assert "steps at most; texts about 2 tables in 1 call; the cost is unknown" in text
    assert ktx("ingest").code == 0
    (asked / "asked.sql").write_text(ASKED.replace("executions: 30", "executions: 3000"))
    ahead = ktx("ingest", "--dry-run", "--json").data["forecast"]
    roles = {each["role"]: each for each in ahead["roles"]}
    assert roles["candidateExtraction"]["work"] == "1 call" and roles["candidateExtraction"]["input_tokens"] == 100


def test_a_question_nobody_asks_any_more_is_marked_without_a_model(
    ktx: Run, asked: Path, model_server: ModelServer
) -> None:
    assert ktx("ingest").code == 0
    (asked / "asked.sql").write_text(ASKED.partition("-- user: ann executions: 30")[2].replace("\n", "-- \n", 1))
    model_server.play([])
    answer = ktx("ingest", "--no-llm", "--json")
    assert answer.code == 0, answer
    assert answer.data["sources"][0]["pages"] == {"queries-revenue-by-customer": "stale"}
    assert "stale_since" in (asked / PAGE).read_text()
    assert shard(asked)["orders"]["usage"]["narrative"] == "People add up what is sold."
    assert model_server.requests == []


def test_a_page_changed_by_hand_stays_changed(ktx: Run, asked: Path) -> None:
    assert ktx("ingest").code == 0
    path = asked / PAGE
    path.write_text(path.read_text() + "\nA note of mine.\n")
    git(asked, "add", "-A")
    git(asked, "-c", "user.name=me", "-c", "user.email=me@example.com", "commit", "-qm", "mine")
    assert ktx("ingest").code == 0
    assert path.read_text().endswith("A note of mine.\n")
