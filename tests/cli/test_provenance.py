"""Where pages come from, from run to run: merged pages, deleted documents, decisions that are remembered."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import yaml
from ktx_cli.testing.model_script import Call, ModelRequest, Reply, calls, says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import LONG, MANIFEST, Agents, git, page, usual

Run = Callable[..., Any]
EVICTIONS = Call("eviction_list")


class Reviewed(Agents):
    """Plays the turns of units, and those of reconciliation in order; `results`: what its tools said in each run."""

    def __init__(self, *review: Reply, **turns: Any) -> None:
        super().__init__(reconcile=[*review, says("done")], **turns)
        self.results: list[str] = []

    def __call__(self, request: ModelRequest) -> Reply:
        if self.topic(json.dumps(request.body.get("messages", []))) == "reconcile":
            for text, is_error in request.tool_results():
                assert not is_error, text
                self.results.append(text)
        return super().__call__(request)


def artifacts(project: Path) -> dict[str, list[str]]:
    document = yaml.load((project / MANIFEST).read_bytes(), where=MANIFEST)
    return {path: state.get("artifacts", []) for path, state in document["files"].items()}


def merging(run: Run, server: ModelServer) -> Reviewed:
    """Let a run write two pages, and reconciliation merge one into the other."""
    both = "# refunds\n\nRefunds come off.\n\nStock is counted on Sunday."
    merged = page("refunds", content=both, raw_paths=["docs/stock.md"])
    note = {"raw_path": "docs/stock.md", "artifact": "wiki:stock", "into": "wiki:refunds", "kind": "merged"}
    model = Reviewed(
        calls(Call("stage_list")),
        calls(merged, Call("wiki_remove", {"key": "stock", "raw_paths": ["stock.md"]})),
        calls(Call("emit_artifact_resolution", {**note, "reason": "One topic."})),
    )
    server.play(model)
    answer = run("ingest", "--json")
    assert answer.code == 0, answer
    return model


def test_a_merged_page_comes_of_the_files_of_both_and_a_deleted_one_leaves_nothing_behind(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds", "stock")
    first = merging(ktx, model_server)
    listed = re.findall(r"files: (\S+)|\[from (\S+)\]", first.results[0])
    names = {"docs/refunds.md", "docs/stock.md"}
    assert {each for both in listed for each in both if each} == names, "one form"
    assert artifacts(company) == {"refunds.md": ["wiki:refunds"], "stock.md": ["wiki:refunds"]}

    (company / "docs/stock.md").unlink()
    rest = page("refunds", content="# refunds\n\nRefunds come off.", raw_paths=["docs/stock.md"])
    kept = {"raw_path": "docs/stock.md", "artifact": "wiki:refunds", "action": "kept", "reason": "refunds.md"}
    second = Reviewed(calls(EVICTIONS), calls(rest), calls(Call("emit_eviction_decision", kept)))
    model_server.play(second)
    answer = ktx("ingest", "--json")
    assert answer.code == 0, answer
    assert "docs/stock.md: wiki:refunds (also from docs/refunds.md)" in second.results[0]
    assert artifacts(company) == {"refunds.md": ["wiki:refunds"]}
    committed = git(company, "ls-files", "wiki", "raw-sources", "semantic-layer").split()
    assert [path for path in committed if "stock" in (company / path).read_text().lower()] == []

    third = Reviewed()
    model_server.play(third)
    assert ktx("ingest").code == 0
    assert third.asked == []


def test_a_unit_of_the_next_run_sees_what_changed_and_reads_the_other_files_of_its_page(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds", "stock")
    merging(ktx, model_server)
    (company / "docs/stock.md").write_text(f"# stock\n\nNew. {LONG}")
    seen: list[str] = []

    class Watching(Agents):
        def __call__(self, request: ModelRequest) -> Reply:
            seen.append(json.dumps(request.body.get("messages", [])))
            return super().__call__(request)

    both = [Call("read_raw_file", {"path": path}) for path in ("docs/stock.md", "refunds.md")]
    model_server.play(Watching(stock=[calls(*both), says("Nothing new.")]))
    answer = ktx("ingest", "--json")
    assert answer.code == 0, answer
    (request, *_) = [each for each in seen if "Task: stock.md" in each]
    assert "-Orders count when they are paid." in request and "+New. Orders count" in request, "what changed"
    assert "refunds.md (23,1" in request and "; wiki:refunds also comes from it" in request
    assert any("an earlier run made these from it: wiki:refunds;" in each for each in seen)
    assert not any("wiki:stock" in each for each in seen)


def test_the_next_run_asks_only_for_the_eviction_nobody_decided(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds", "stock")
    more = page("returns", raw_paths=["refunds.md"])
    model_server.play(Agents(refunds=[*usual("refunds")[:2], calls(page("refunds"), more), says("done")]))
    assert ktx("ingest").code == 0
    (company / "docs/refunds.md").unlink()

    def decide(artifact: str) -> Call:
        decision = {"raw_path": "refunds.md", "artifact": artifact, "action": "kept", "reason": "It still holds."}
        return Call("emit_eviction_decision", decision)

    first = Reviewed(calls(EVICTIONS), calls(decide("wiki:refunds")))
    model_server.play(first)
    answer = ktx("ingest", "--json")
    assert answer.code == 0, answer
    assert "docs/refunds.md: wiki:refunds, wiki:returns" in first.results[0]
    assert [each["code"] for each in answer.envelope["warnings"]] == ["undecided"]
    assert artifacts(company)["refunds.md"] == ["wiki:returns"]

    second = Reviewed(calls(EVICTIONS), calls(decide("wiki:returns")))
    model_server.play(second)
    assert ktx("ingest").code == 0
    assert "docs/refunds.md: wiki:returns" in second.results[0] and "wiki:refunds" not in second.results[0]
    assert artifacts(company) == {"stock.md": ["wiki:stock"]}

    third = Reviewed()
    model_server.play(third)
    assert ktx("ingest").code == 0
    assert third.asked == []


SWANS: Final = "Orders of the zebrafinch club are settled on the last Friday."
"""What only the document says that is deleted."""


def of_the_club(topic: str = "terms") -> list[Reply]:
    """Return the turns of a unit that writes a page, a measure and a contradiction, all from its document."""
    read = [Call("read_raw_file", {"path": f"{topic}.md"}), Call("entity_details", {"targets": ["orders"]})]
    definition = (
        "name: orders\nmeasures:\n  - name: club_orders\n    expr: sum(amount)\n    filter: paid = 1\n"
        "    questions: [How much does the zebrafinch club owe?]\n"
    )
    overlay = {"connection": "shop", "source": "orders", "yaml": definition, "raw_paths": [f"{topic}.md"]}
    statements = [
        {"source": f"{topic}.md", "text": SWANS, "effect": "A later day of payment."},
        {"source": "data", "text": "Every order of the zebrafinch club is paid.", "effect": "None is open."},
    ]
    questions = ["When does the zebrafinch club pay?"]
    written = page(topic, content=f"# Terms\n\n{SWANS}", questions=questions, raw_paths=[f"{topic}.md"])
    recorded = Call("record_contradiction", {"topic": "zebrafinch club", "statements": statements})
    return [calls(*read), calls(written, Call("sl_write_source", overlay), recorded), says("done")]


def test_a_deleted_document_leaves_nothing_in_contradictions_measures_and_the_index(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds", "terms")
    (company / "docs/terms.md").write_text(f"# Terms\n\n{SWANS}\n\n{LONG}")
    merged = f"# Refunds\n\nRefunds come off.\n\n{SWANS}"
    note = {"raw_path": "docs/terms.md", "artifact": "wiki:terms", "into": "wiki:refunds", "kind": "merged"}
    first = Reviewed(
        calls(page("refunds", content=merged, raw_paths=["docs/terms.md"]), Call("wiki_remove", {"key": "terms"})),
        calls(Call("emit_artifact_resolution", {**note, "reason": "One topic."})),
        terms=of_the_club(),
    )
    model_server.play(first)
    answer = ktx("ingest", "--json")
    assert answer.code == 0, answer
    pages = {"wiki/global/refunds.md", "wiki/global/documents-docs.md"}
    assert traces(ktx, company) == {*pages, "contradictions.yaml", "semantic-layer", "search", "index"}

    (company / "docs/terms.md").unlink()
    decide = [
        Call("emit_eviction_decision", {"raw_path": "docs/terms.md", "reason": "It is gone.", **fields})
        for fields in (
            {"artifact": "wiki:refunds", "action": "kept"},
            {"artifact": "sl:shop/orders", "action": "removed"},
        )
    ]
    model_server.play(
        Reviewed(
            calls(EVICTIONS, Call("sl_read_source", {"source": "orders"})),
            calls(
                page("refunds", content="# Refunds\n\nRefunds come off.", raw_paths=["docs/terms.md"]),
                Call("sl_write_source", {"connection": "shop", "source": "orders", "delete": True}),
            ),
            calls(*decide),
        )
    )
    answer = ktx("ingest", "--json")
    assert answer.code == 0, answer
    assert traces(ktx, company) == set()


def traces(run: Run, project: Path) -> set[str]:
    """Return where something is left of what only the deleted document said."""
    found = {
        "semantic-layer" if path.startswith("semantic-layer/") else path
        for path in git(project, "ls-files").split()
        if "zebrafinch" in (project / path).read_text()
    }
    hits = run("search", "zebrafinch", "--json").data["hits"]
    with sqlite3.connect(project / ".ktx/search.sqlite") as index:
        is_indexed = any("zebrafinch" in line for line in index.iterdump())
    index.close()
    return found | ({"search"} if hits else set()) | ({"index"} if is_indexed else set())
