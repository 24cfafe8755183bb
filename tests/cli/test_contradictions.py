"""Sources that contradict each other: agents record both statements, nothing is preferred, and people see it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktx_cli.core import yaml
from ktx_cli.testing.model_script import Call, ModelRequest, Reply, calls, gives, says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.conftest import git

Run = Callable[..., Any]


@dataclass(frozen=True)
class Planted:
    """What two sources say of one topic; `source` as an agent names it."""

    topic: str
    one: tuple[str, str]
    other: tuple[str, str]

    @property
    def call(self) -> Call:
        statements = [{"source": s, "text": text, "effect": f"The page on {self.topic}."} for s, text in self.sides]
        return Call("record_contradiction", {"topic": self.topic, "statements": statements})

    @property
    def sides(self) -> tuple[tuple[str, str], tuple[str, str]]:
        return self.one, self.other


PLANTED = (
    Planted("returns", ("returns.md", "Customers have 30 days."), ("policy-2023.md", "Customers have 14 days.")),
    Planted("vip", ("crm.md", "A VIP spends 500 euros."), ("loyalty.md", "A VIP spends 1000 euros.")),
    Planted("week", ("calendar.md", "The week begins on Monday."), ("reports.md", "The week begins on Sunday.")),
    Planted("churn", ("crm.md", "Churned after 60 days."), ("reports.md", "Churned after 90 days.")),
    Planted("amount", ("finance.md", "Amounts are in cents."), ("sl:shop/orders.amount", "The amount in euros.")),
    Planted("paid", ("finance.md", "1 means open."), ("sl:shop/orders.paid", "Whether it was settled, 1 if so.")),
    Planted("customer", ("crm.md", "One row per household."), ("sl:shop/customers", "One row per person.")),
    Planted("all paid", ("finance.md", "Every order is paid."), ("data", "| 300 |")),
    Planted("largest", ("finance.md", "No order is above 8 euros."), ("data", "| 40 |")),
    Planted("customers", ("crm.md", "There are 3 customers."), ("data", "| 200 |")),
)
"""Four of document and document, three of document and dbt, three of document and data."""

SCHEMA = """\
version: 2
models:
  - name: orders
    columns:
      - {name: amount, description: The amount in euros.}
      - {name: paid, description: "Whether it was settled, 1 if so."}
  - {name: customers, description: One row per person.}
"""
QUERIES = (
    "SELECT 300 * count(*) AS unpaid FROM orders WHERE paid = 0",
    "SELECT 40 * count(*) AS above FROM orders WHERE amount > 8",
    "SELECT 100 * count(*) AS customers FROM customers",
)


class Careful:
    """Follows the prompt of a unit: reads, looks up, queries, then records what it has read both sides of."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, str]] = []
        self.reconciled: list[str] = []

    def __call__(self, request: ModelRequest) -> Reply:
        said = json.dumps(request.body.get("messages", []), ensure_ascii=False).replace('\\"', '"')
        if "You sort documents" in request.system:
            return gives({"lane": "full", "reason": "It says what counts."})
        if "This run has " in said:
            self.reconciled.append(said)
            return says("done")
        listed = re.findall(r"- ([\w-]+\.md) \(", said)
        if not listed:
            return says("ok")
        step = sum(message["role"] == "assistant" for message in request.body["messages"])
        if step == 0:
            look = Call("entity_details", {"connection": "shop", "targets": ["orders", "customers"]})
            ask = [Call("sql_execution", {"connection": "shop", "sql": sql}) for sql in QUERIES]
            return calls(*(Call("read_raw_file", {"path": path}) for path in dict.fromkeys(listed)), look, *ask)
        if step == 1:
            assert "prefer none of them" in request.system
            seen = [each for each in PLANTED if all(text in said for _, text in each.sides)]
            self.recorded += [(each.topic, said) for each in seen]
            return calls(*(each.call for each in seen), *(_page(each) for each in seen if each.other[0] != "data"))
        assert [failed for _, failed in request.tool_results()] == [False] * len(request.tool_results())
        return says("Recorded.")


def _page(planted: Planted) -> Call:
    said = "\n".join(f"- {source}: {text}" for source, text in planted.sides)
    page = {"key": planted.topic, "summary": f"About {planted.topic}.", "content": f"Sources disagree:\n\n{said}\n"}
    return Call("wiki_write", {**page, "raw_paths": [source for source, _ in planted.sides if source.endswith(".md")]})


def plant(company: Path) -> None:
    texts: dict[str, list[str]] = {}
    for each in PLANTED:
        for source, text in each.sides:
            if source.endswith(".md"):
                texts.setdefault(source, []).append(text)
    for name, lines in texts.items():
        (company / "docs" / name).write_text(f"# {name}\n\n" + "\n\n".join(lines) + "\n")
    (company / "transform/models").mkdir(parents=True)
    (company / "transform/dbt_project.yml").write_text("name: acme\n")
    (company / "transform/models/schema.yml").write_text(SCHEMA)
    with (company / "ktx.yaml").open("a") as file:
        file.write("  transform: {driver: dbt, source_dir: transform}\n")


def kept(company: Path) -> list[dict[str, Any]]:
    document = yaml.load((company / "contradictions.yaml").read_bytes(), where="contradictions.yaml")
    return list(document["contradictions"])


def full(source: str) -> str:
    return f"docs/{source}" if source.endswith(".md") else source


def test_all_of_ten_planted_contradictions_are_recorded_and_kept_until_a_person_decides(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure()
    plant(company)
    model = Careful()
    model_server.play(model)
    answer = ktx("ingest", "--json")
    assert answer.code == 0, answer
    topics = [each.topic for each in PLANTED if each.other[0] != "data"]
    pages = [(company / f"wiki/global/{topic}.md").read_text() for topic in topics]
    halves = [each.topic for each in PLANTED for said in pages if len({text in said for _, text in each.sides}) > 1]
    assert halves == [], "no page says one side alone"
    found = answer.data["contradictions"]
    sides = {(each["topic"], tuple((s["source"], s["text"]) for s in each["statements"])) for each in found}
    assert sides == {(each.topic, tuple((full(s), text) for s, text in each.sides)) for each in PLANTED}
    for planted in PLANTED:
        (request,) = [said for topic, said in model.recorded if topic == planted.topic]
        assert all(text in request for _, text in planted.sides), "both were read before the call"
    assert all(text in model.reconciled[0] for each in PLANTED for _, text in each.sides), "reconciliation is shown all"
    assert [each["topic"] for each in kept(company)] == [each["topic"] for each in found]

    shown = ktx("runs", "show", "latest")
    assert "contradiction\tdocs:" in shown.out and "docs/policy-2023.md: Customers have 14 days." in shown.out
    status = ktx("status").out
    assert "10 contradictions between sources wait for a decision: returns, vip" in status

    text = (company / "contradictions.yaml").read_text()
    text = text.replace("  - topic: vip\n", "  - topic: vip  # sales\n    decision: 1000 euros, says sales\n")
    (company / "contradictions.yaml").write_text(text)
    assert "9 contradictions" in ktx("status").out


SIDES = {"docs/returns.md": "Customers have 30 days.", "policy/policy-2023.md": "Customers have 14 days."}


RETURNS = "wiki/global/returns.md"


class TwoUnits:
    """Each unit writes the same page from its own document; the repair of the conflict records what both say."""

    def __init__(self) -> None:
        self.repairs: list[str] = []

    def __call__(self, request: ModelRequest) -> Reply:
        said = json.dumps(request.body.get("messages", []), ensure_ascii=False).replace('\\"', '"')
        step = sum(message["role"] == "assistant" for message in request.body["messages"])
        if "You sort documents" in request.system:
            return gives({"lane": "full", "reason": "It says what counts."})
        if "Two agents changed the same file" in request.system:
            if step == 0:
                return calls(Call("read_repair_file", {"path": RETURNS}))
            self.repairs.append(said)
            return self._repair() if step == 1 else says("Both are in it.")
        listed = re.findall(r"- ([\w-]+\.md) \(", said)
        if "This run has " in said or not listed or step:
            return says("ok")
        text = next(text for source, text in SIDES.items() if source.endswith(f"/{listed[0]}"))
        page = {"key": "returns", "summary": "How long customers may return goods.", "content": f"{text}\n"}
        return calls(Call("wiki_write", {**page, "raw_paths": listed}))

    def _repair(self) -> Reply:
        statements = [{"source": source, "text": text, "effect": "The page."} for source, text in SIDES.items()]
        lines = "\n".join(f"- {source}: {text}" for source, text in SIDES.items())
        page = f"---\nsummary: How long customers may return goods.\n---\n\nSources disagree:\n\n{lines}\n"
        return calls(
            Call("record_contradiction", {"topic": "returns", "statements": statements}),
            Call("write_repair_file", {"path": RETURNS, "content": page}),
        )


def test_the_repair_of_a_conflict_records_the_contradiction(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure()
    (company / "policy").mkdir()
    for source, text in SIDES.items():
        (company / source).write_text(f"# Returns\n\n{text}\n")
    with (company / "ktx.yaml").open("a") as file:
        file.write("  policy: {driver: documents, path: policy}\n")
    model = TwoUnits()
    model_server.play(model)
    answer = ktx("ingest", "--json")
    assert answer.code == 0, answer
    assert all(text in model.repairs[0] for text in SIDES.values()), "the repair has read both changes"
    (found,) = answer.data["contradictions"]
    assert {each["source"]: each["text"] for each in found["statements"]} == SIDES
    assert [each["topic"] for each in kept(company)] == ["returns"]
    page = (company / RETURNS).read_text()
    assert all(text in page for text in SIDES.values()), "neither is preferred"


def test_a_run_without_contradictions_leaves_no_file(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds")
    model_server.play(Careful())
    answer = ktx("ingest", "--json")
    assert answer.data["contradictions"] == []
    assert not (company / "contradictions.yaml").exists()
    assert "contradiction" not in ktx("status").out


MINE = """\
# ours, do not sort
contradictions:
- topic: returns   # legal
  statements:
  - {source: docs/policy-2023.md, text: Customers have 14 days., effect: x}   # old
  - {source: docs/returns.md, text: Customers have 30 days., effect: x}
  decision: Customers have 30 days.
  decided_by: Ada
"""


def commit(folder: Path, text: str) -> None:
    (folder / "contradictions.yaml").write_text(text)
    git(folder, "init", "-q")
    git(folder, "add", "contradictions.yaml")
    git(folder, "commit", "-qm", "ours")


def test_what_a_person_decided_is_shown_and_kept_with_its_comments(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure()
    plant(company)
    commit(company, MINE)
    model = Careful()
    model_server.play(model)
    answer = ktx("ingest", "--json")
    assert answer.code == 0, answer
    assert len(answer.data["contradictions"]) == 9
    said = next(said for topic, said in model.recorded if topic == "returns")
    assert "Contradictions that a person has decided" in said and "Decided: Customers have 30 days (by Ada)" in said
    text = (company / "contradictions.yaml").read_text()
    assert text.startswith(MINE)
    assert [each["topic"] for each in kept(company)] == [each.topic for each in PLANTED]


def test_a_file_that_cannot_be_read_stays_and_the_report_has_what_was_found(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure()
    plant(company)
    broken = MINE + "  statements: [\n"
    commit(company, broken)
    model_server.play(Careful())
    answer = ktx("ingest", "--json")
    assert "contradictions_not_kept" in {each["code"] for each in answer.envelope["warnings"]}
    assert len(answer.data["contradictions"]) == 10
    assert (company / "contradictions.yaml").read_text() == broken
