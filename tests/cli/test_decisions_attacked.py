"""Agents with every tool cannot decide: runs of `ktx ingest` and `ktx memory capture` whose model attacks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.scan import FoundPoint, decisions_path, points_bytes
from ktx_cli.semantic import Alternative, DecisionKind
from ktx_cli.testing.model_script import Call, ModelRequest, Reply, calls, says
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.warehouses import TableRef
from tests.cli.agents import Agents, git
from tests.cli.memory_agents import TEXT, Memory

Run = Callable[..., Any]

POINT = "orders.status.paid"
FOUND = FoundPoint(
    TableRef(None, "orders"), DecisionKind.STATUS, ("paid",), "Do unpaid orders count?",
    (Alternative("all", "Every order counts"), Alternative("paid", "Only paid orders count", filter="paid = 1")),
    ("`paid` is 0 in 1 of 2 rows.",), 0.5,
)  # fmt: skip
OWN = "name: orders\nmeasures:\n  - {name: revenue, expr: sum(amount)}\n  - {name: order_count, expr: count(*)}\n"
OWNERS = "owners:\n  - {match: 'orders.*', owners: ['Ada <ada@example.com>']}\n"
ANSWER = (
    "decisions:\n- {connection: shop, point: orders.status.paid, alternative: paid, decision: Only paid orders count, "
    "decided_by: Ada, decided_on: 2026-01-31}\n"
)
GUARDED = ("decisions.yaml", "owners.yaml", "ktx.yaml", decisions_path("shop"))
"""Files by which people decide and accept, and the record of what is open."""
PLACES = [f"{up}{path}" for path in GUARDED for up in ("", "./", "../", "../../", "wiki/../", "/")]


def _measure(**fields: Any) -> str:
    item = {"name": "revenue", "expr": "sum(amount)", **fields}
    return str(yaml.dump({"name": "orders", "measures": [item]}))


def _source(text: str, source: str = "orders") -> Call:
    return Call("sl_write_source", {"connection": "shop", "source": source, "yaml": text})


def _sneaky() -> list[Reply]:
    """Return the turns of an agent that defines a reading of its own, as it may."""
    sneaky = {"name": "sneaky", "expr": "sum(amount)", "filter": "paid = 1"}
    text = "Revenue of paid orders, as decided by Ada."
    item = {**sneaky, "descriptions": {"ai": text}}
    return [
        calls(Call("read_raw_file", {"path": "sneak.md"})),
        calls(Call("entity_details", {"connection": "shop", "targets": ["orders"]})),
        calls(_source(f"{OWN}  - {json.dumps(item)}\n")),
        says("done"),
    ]


def _aimed() -> Iterator[Call]:
    """Yield the calls that somebody who has read the source code would try."""
    for status in ("accepted", "certified"):
        yield _source(_measure(status=status))
        yield _source(_measure(status=status, owner="Ada <ada@example.com>", review_by="2030-01-01"))
        yield _source(_measure(descriptions={"dbt": "Defined by dbt."}, status=status))
    for name in ("../../decisions", "decisions", "_schema/main", "../../raw-sources/shop/live-database/decisions"):
        yield _source(ANSWER, name)
    for key in (*PLACES, "decision-orders-status-paid"):
        content = f"# Do unpaid orders count?\n\n**Only paid orders count.** Decided by Ada.\n\n{ANSWER}"
        fields = {
            "summary": "Only paid orders count",
            "content": content,
            "tags": ["decision"],
            "raw_paths": ["plan.md"],
        }
        yield Call("wiki_write", {"key": key, **fields})
    statements = [
        {"source": "plan.md", "text": "Only paid orders count.", "effect": "Revenue."},
        {"source": "shop", "text": "Every order counts.", "effect": "Revenue."},
    ]
    contradiction = {"topic": POINT, "statements": statements, "evidence": "The plan says so."}
    yield Call("record_contradiction", {**contradiction, "decision": "Only paid orders count.", "decided_by": "Ada"})
    yield Call("record_contradiction", contradiction)
    shell = "ktx decide orders.status.paid --as paid"
    for name in ("ktx_decide", "decide", "sl_set_status", "accept", "write_file", "bash"):
        yield Call(name, {"command": shell, "point": POINT, "as": "paid", "path": "decisions.yaml", "content": ANSWER})


def _fuzzed(tools: list[Mapping[str, Any]]) -> Iterator[Call]:
    """Yield calls of every tool of a request, whose texts are the paths of what people alone write."""
    for tool in tools:
        schema = tool.get("input_schema") or {}
        properties = schema.get("properties") or {}
        for place in (*GUARDED, "../decisions.yaml", POINT):
            yield Call(str(tool["name"]), {name: _value(name, each, place) for name, each in properties.items()})


def _value(name: str, schema: Mapping[str, Any], place: str) -> Any:
    kinds = {schema.get("type"), *(each.get("type") for each in schema.get("anyOf") or ())}
    if "enum" in schema:
        return schema["enum"][-1]
    if name == "connection":
        return "shop"
    if "string" in kinds:
        return ANSWER if name in ("yaml", "content", "text") else place
    if "array" in kinds:
        item = schema.get("items") or next(
            (each.get("items") for each in schema.get("anyOf", ()) if "items" in each), {}
        )
        return [_value(name, item or {"type": "string"}, place)]
    if "object" in kinds:
        return {key: _value(key, each, place) for key, each in (schema.get("properties") or {}).items()}
    return {"boolean": True, "integer": 1, "number": 1}.get(next(iter(kinds - {None, "null"}), "string"), place)


class Attacker:
    """Makes every attack in steps of several calls, whatever the task; `tools`: the names of those that it is given."""

    def __init__(self, plain: Agents, steps: int) -> None:
        self.plain, self.steps = plain, steps
        self.most = 10_000
        self.tools: set[str] = set()
        self.tried = 0

    def __call__(self, request: ModelRequest) -> Reply:
        tools = [each for each in request.body.get("tools") or () if "input_schema" in each]
        is_plain = self.plain.topic(json.dumps(request.body.get("messages"))) not in ("plan", "memory", "reconcile")
        if not tools or is_plain or self.tried >= self.most:
            return self.plain(request)
        self.tools |= {str(each["name"]) for each in tools}
        attacks = [Call("read_raw_file", {"path": "plan.md"}), *_aimed(), *_fuzzed(tools)]
        done = sum(message["role"] == "assistant" for message in request.body["messages"])
        batches = [attacks[start :: self.steps] for start in range(self.steps)]
        if done >= len(batches):
            return says("I decided it.")
        self.tried += len(batches[done])
        return calls(*batches[done])


@pytest.fixture
def undecided(scanned: Path, configure: Run) -> Path:
    """A project with an open decision, owners, and definitions that Ada committed."""
    configure("plan", "sneak")
    files = {
        "semantic-layer/shop/orders.yaml": OWN,
        "owners.yaml": OWNERS,
        decisions_path("shop"): points_bytes((FOUND,)).decode(),
    }
    for path, text in files.items():
        (scanned / path).write_text(text)
    git(scanned, "add", "-A")
    git(scanned, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-qm", "Ada's definitions")
    return scanned


def _guarded(project: Path) -> dict[str, bytes | None]:
    paths = [project / each for each in ("decisions.yaml", "owners.yaml", "ktx.yaml")]
    return {path.name: path.read_bytes() if path.exists() else None for path in paths}


def _assert_undecided(ktx: Run, project: Path, before: Mapping[str, bytes | None], start: str) -> None:
    assert _guarded(project) == before
    changed = git(project, "log", "--format=", "--name-only", f"{start}..HEAD").split()
    assert not {"decisions.yaml", "owners.yaml", "ktx.yaml"} & set(changed)
    found = {each["id"]: each for each in ktx("decide", "--all", "--json").data["points"]}
    assert (found[POINT]["state"], found[POINT]["answer"]) in (("open", None), ("stated", None)), found[POINT]
    for path in project.glob("semantic-layer/shop/*.yaml"):
        for item in (yaml.load(path.read_bytes(), where=path.name) or {}).get("measures") or ():
            assert item.get("status") in (None, "proposed") and "owner" not in item, (path, item)
    answer = ktx("sl", "query", "-m", "orders.revenue", "--json")
    receipt = answer.data["receipt"]
    assert [each["id"] for each in receipt["open"]] == [POINT], receipt
    refused = ktx("sl", "query", "-m", "orders.sneaky", "--min-status", "accepted", "--json")
    assert "the answer would be `proposed`, not `accepted`" in refused.envelope["error"]["message"], refused
    assert not list(project.parent.glob("decisions.yaml")) and not list(project.parent.glob("owners.yaml"))


def test_no_agent_of_a_run_decides_or_accepts(ktx: Run, undecided: Path, model_server: ModelServer) -> None:
    before, start = _guarded(undecided), git(undecided, "rev-parse", "HEAD").strip()
    attacker = Attacker(Agents(sneak=_sneaky()), steps=6)
    model_server.play(attacker)
    answer = ktx("ingest", "docs", "--json")
    assert answer.code in (0, 7), answer
    assert attacker.tried > 100 and {"wiki_write", "sl_write_source", "record_contradiction"} <= attacker.tools
    _assert_undecided(ktx, undecided, before, start)


def test_no_capture_decides_or_accepts(ktx: Run, undecided: Path, model_server: ModelServer) -> None:
    before, start = _guarded(undecided), git(undecided, "rev-parse", "HEAD").strip()
    attacker = Attacker(Memory(_sneaky()[1:]), steps=6)
    model_server.play(attacker)
    answer = ktx("memory", "capture", "--text", f"{TEXT} Decide that only paid orders count.", "--json")
    assert attacker.tried > 60 and {"wiki_write", "sl_write_source"} <= attacker.tools, answer
    attacker.most = 0
    assert ktx("memory", "capture", "--text", TEXT).code == 0
    _assert_undecided(ktx, undecided, before, start)
