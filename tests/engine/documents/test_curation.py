"""Candidates in passes, through the real client: budget, batches, verdicts, failures, what the next run takes up."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.agent_tools.library import DocumentId
from ktx_cli.core.errors import KtxError
from ktx_cli.documents.raw import WorkUnit
from ktx_cli.engine.documents.candidates import PageCandidate, Scores, evidence_of
from ktx_cli.engine.documents.curation import page_budget
from ktx_cli.engine.documents.lanes import DocumentLanes
from ktx_cli.engine.work import SourceWork, UnitOutcome, UnitStatus
from ktx_cli.sources.notion import NotionConnection
from ktx_cli.sources.registry import source_for
from ktx_cli.testing.model_script import NO_CREDIT, TOO_LONG, Call, ModelRequest, Reply, calls, says
from ktx_cli.testing.model_server import ModelServer

FILES = {
    f"{number:02}.md": f"# Topic {number:02}\n\nRule {number:02} of the house, in words.\n" for number in range(80)
}
MakeWorld = Callable[..., Any]


def candidates(run: Any, count: int) -> list[PageCandidate]:
    """Return one candidate of each of the first documents, the first being the best."""
    found = []
    for number in range(count):
        place = DocumentId("docs", f"{number:02}.md")
        (passage,) = run.documents.library.passages(place)
        scores = Scores(3, 3, 3 if number < 40 else 0, 0, 0)
        evidence = (evidence_of(passage, place, run.documents.library),)
        texts = (f"Topic {number:02}", f"Rule {number:02} holds.", "")
        found.append(PageCandidate(f"t{number:02}", "docs", *texts, evidence, scores=scores))
    return found


def shown(request: ModelRequest) -> list[str]:
    """The keys of the candidates a pass is about."""
    return re.findall(r"candidate `(t\d\d)`:", request.body["messages"][0]["content"][-1]["text"])


def step(request: ModelRequest) -> int:
    """Which step of its loop a request is, from 0."""
    return sum(message["role"] == "assistant" for message in request.body["messages"])


def write(key: str, **more: Any) -> Call:
    given = {"key": f"page-{key}", "summary": f"What {key} is.", "content": f"Text of {key}.", **more}
    return Call("wiki_write", given)


def mark(key: str, status: str = "promoted", **more: Any) -> Call:
    artifact = {"artifact": f"wiki:page-{key}"} if status == "promoted" else {}
    return Call("context_candidate_mark", {"key": key, "status": status, **artifact, **more})


def promotes_all(request: ModelRequest) -> Reply:
    """Write a page for every candidate, mark those that were written promoted and the others over budget."""
    keys = shown(request)
    if step(request) == 0:
        return calls(*(write(key) for key in keys))
    if step(request) == 1:
        refused = [is_error for _, is_error in request.tool_results()]
        over = {"status": "rejected", "reason": "exceeded_run_budget"}
        marks = [mark(key, **over) if bad else mark(key) for key, bad in zip(keys, refused, strict=True)]
        return calls(*marks)
    return says("Done.")


def verdicts(found: Any) -> dict[str, tuple[str, str]]:
    return {each.key: (each.status, each.reason) for each in found.candidates}


def test_candidates_become_pages_in_batches(world: MakeWorld, model_server: ModelServer) -> None:
    model_server.play(promotes_all)
    run = world(FILES)
    found = run.curate(candidates(run, 10))
    assert sorted(run.pages()) == [f"page-t{number:02}" for number in range(10)]
    assert {each.status for each in found.candidates} == {"promoted"}
    assert found.report.to_json()["topics_by_verdict"] == {"promoted": 10}
    assert (found.report.passes, found.report.examined, found.report.budget_exhausted) == (2, 10, False)
    batches = [shown(request) for request in model_server.model_calls if step(request) == 0]
    assert [len(batch) for batch in batches] == [8, 2]
    assert "pass 1 of 2" in model_server.model_calls[0].words
    assert "wiki:page-t00" in model_server.model_calls[3].words
    assert found.outcomes[0].produced()["wiki:page-t03"] == ("03.md",)


def test_what_a_curator_may_use(world: MakeWorld, model_server: ModelServer) -> None:
    model_server.play(promotes_all)
    run = world(FILES)
    run.curate(candidates(run, 1))
    names = set(model_server.model_calls[0].tool_names)
    wanted = {
        "context_evidence_search",
        "context_evidence_read",
        "context_evidence_neighbors",
        "context_candidate_mark",
    }
    assert wanted | {"wiki_write", "wiki_read", "stage_list"} <= names
    assert "{{" not in model_server.model_calls[0].system


def test_the_budget_is_enforced_and_the_rest_waits_for_the_next_run(
    world: MakeWorld, model_server: ModelServer
) -> None:
    model_server.play(promotes_all)
    run = world(FILES, limits={"max_knowledge_creates": 5, "max_knowledge_updates": 0})
    found = run.curate(candidates(run, 20))
    assert len(run.pages()) == 5
    report = found.report.to_json()
    assert report["topics_by_verdict"] == {"promoted": 5, "rejected": 15}
    assert report["topics_rejected_by_reason"] == {"exceeded_run_budget": 15}
    assert (report["passes_run"], report["budget_exhausted"]) == (1, True)
    again = world(FILES)
    assert len(again.documents.earlier["docs", "files"]) == 15
    second = again.curate()
    assert (second.report.carried, second.report.to_json()["topics_by_verdict"]) == (15, {"promoted": 15})
    assert not any(world(FILES).documents.earlier.values())


def test_limits_have_their_effect_by_the_names_of_the_typescript_ktx_too() -> None:
    def budget(**limits: int) -> tuple[int, int]:
        entry = NotionConnection(driver="notion", auth_token="env:T", **limits)
        found = page_budget(SourceWork("docs", entry, source_for("notion")), ())
        return found.creates, found.updates

    assert budget() == (25, 20)
    assert budget(max_knowledge_creates=3, max_knowledge_updates=4) == (3, 4)
    assert budget(max_knowledge_creates_per_run=0, max_knowledge_updates_per_run=9) == (0, 9)


def test_pages_of_units_count(world: MakeWorld, model_server: ModelServer) -> None:
    model_server.play(promotes_all)
    run = world(FILES, limits={"max_knowledge_creates": 3, "max_knowledge_updates": 0})
    actions = [{"target": "wiki", "kind": "created", "key": f"x{number}", "raw_paths": []} for number in range(2)]
    unit = UnitOutcome("docs", "files", WorkUnit("u", "u", ()), UnitStatus.DONE, session={"actions": actions})
    other = UnitOutcome("other", "files", WorkUnit("u", "u", ()), UnitStatus.DONE, session={"actions": actions})
    found = run.curate(candidates(run, 3), [unit, other])
    assert len(run.pages()) == 1
    assert found.report.budget_exhausted


def test_no_more_than_eight_passes(world: MakeWorld, model_server: ModelServer) -> None:
    model_server.play(rejects_all)
    run = world(FILES)
    found = run.curate(candidates(run, 70))
    assert found.report.passes == 8
    reasons = found.report.rejections()
    assert reasons == {"exceeded_curator_passes": 6, "says nothing": 64}
    assert len(world(FILES).documents.earlier["docs", "files"]) == 6


def rejects_all(request: ModelRequest) -> Reply:
    if step(request):
        return says("Done.")
    return calls(*(mark(key, "rejected", reason="says nothing") for key in shown(request)))


def test_a_pass_that_fails_costs_its_batch_alone(world: MakeWorld, model_server: ModelServer) -> None:
    def script(request: ModelRequest) -> Reply:
        if "t00" in shown(request) and step(request) == 1:
            return TOO_LONG
        return promotes_all(request)

    model_server.play(script)
    run = world(FILES)
    found = run.curate(candidates(run, 10))
    assert sorted(run.pages()) == ["page-t08", "page-t09"]
    assert found.report.rejections() == {"curator_pass_error": 8}
    assert [each.status for each in found.outcomes] == [UnitStatus.FAILED, UnitStatus.DONE]
    assert found.outcomes[0].unit.files == tuple(f"{number:02}.md" for number in range(8))
    assert not any(world(FILES).documents.earlier.values())


def test_an_error_that_ends_the_run_leaves_the_rest_for_the_next(world: MakeWorld, model_server: ModelServer) -> None:
    model_server.play(lambda request: promotes_all(request) if "t00" in shown(request) else NO_CREDIT)
    run = world(FILES)
    found = run.curate(candidates(run, 20))
    assert len(run.pages()) == 8
    assert found.report.rejections() == {"run_ended": 12}
    assert [each.status for each in found.outcomes] == [UnitStatus.DONE, UnitStatus.LEFT, UnitStatus.LEFT]
    left = {path for each in found.outcomes[1:] for path in each.unit.files}
    assert left == {f"{number:02}.md" for number in range(8, 20)}


def test_a_candidate_nobody_marked_has_a_verdict_too(world: MakeWorld, model_server: ModelServer) -> None:
    model_server.play(lambda request: says("I am done."))
    run = world(FILES)
    found = run.curate(candidates(run, 2))
    assert set(verdicts(found).values()) == {("rejected", "no_verdict")}


def test_doublets_and_hints_never_reach_a_pass(world: MakeWorld, model_server: ModelServer) -> None:
    model_server.play(promotes_all)
    run = world(FILES)
    first, second, third = candidates(run, 3)
    twin = PageCandidate("twin", "docs", first.topic, first.assertion, "", second.evidence, scores=Scores(1))
    conflict = PageCandidate("odd", "docs", "Odd", "Odd.", "", third.evidence).judged("conflict", "contradicts")
    found = run.curate([first, twin, conflict])
    assert shown(model_server.model_calls[0]) == ["t00"]
    assert found.report.to_json()["topics_by_verdict"] == {"conflict": 1, "merged": 1, "promoted": 1}
    assert found.report.repeated == 1
    assert found.outcomes[0].produced() == {"wiki:page-t00": ("00.md", "01.md")}


def test_the_same_turns_make_the_same_bytes_and_a_repeated_run_asks_nothing(
    world: MakeWorld, model_server: ModelServer
) -> None:
    model_server.play(promotes_all)
    first = world(FILES)
    done = first.curate(candidates(first, 10), land=False)
    model_server.play([])
    again = world(FILES)
    replayed = again.curate(candidates(again, 10), land=False)
    assert not model_server.model_calls
    assert all(each.replayed for each in replayed.outcomes)
    assert again.workspace.changes() == first.workspace.changes()
    assert json.dumps(replayed.report.to_json()) == json.dumps(done.report.to_json())
    other = world(FILES, version="2")
    model_server.play(promotes_all)
    anew = other.curate(candidates(other, 10), land=False)
    assert other.workspace.changes() == first.workspace.changes()
    assert digest(anew) == digest(done)


def digest(found: Any) -> str:
    told = [found.report.to_json(), [each.to_json() for each in found.outcomes]]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def test_a_pass_that_was_cut_off_goes_on_where_it_was(world: MakeWorld, model_server: ModelServer) -> None:
    model_server.play(lambda request: NO_CREDIT if step(request) == 2 else promotes_all(request))
    run = world(FILES)
    found = run.curate(candidates(run, 3), land=False)
    assert [each.status for each in found.outcomes] == [UnitStatus.LEFT]
    assert run.pages() == {}
    model_server.play(promotes_all)
    again = world(FILES)
    done = again.curate(candidates(again, 3))
    assert len(model_server.model_calls) == 1
    assert len(again.pages()) == 3
    assert set(verdicts(done).values()) == {("promoted", "")}


def test_a_page_that_says_it_already_comes_of_the_document_too(world: MakeWorld, model_server: ModelServer) -> None:
    merges = mark("t00", "merged", artifact="wiki:refunds")
    model_server.play([calls(merges), says("Done.")])
    run = world(FILES)
    run.workspace.write("wiki/global/refunds.md", "---\nsummary: What a refund is.\n---\n\nText.\n")
    found = run.curate(candidates(run, 1))
    assert verdicts(found) == {"t00": ("merged", "")}
    assert found.outcomes[0].session["merged"] == {"wiki:refunds": ["00.md"]}


def test_a_page_may_not_refer_to_one_that_is_not_there(world: MakeWorld, model_server: ModelServer) -> None:
    model_server.play([calls(write("t00", refs=["nowhere"])), calls(write("t00")), calls(mark("t00")), says("Done.")])
    run = world(FILES)
    run.curate(candidates(run, 1))
    ((text, is_error),) = model_server.model_calls[1].tool_results()
    assert is_error
    assert "nowhere" in text
    assert list(run.pages()) == ["page-t00"]


def test_wrong_definitions_fail_a_pass(
    world: MakeWorld, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_server.play(promotes_all)
    run = world(FILES)
    curator = type(run).curator

    def broken(self: Any, runtime: Any) -> Any:
        made = curator(self, runtime)
        monkeypatch.setattr(
            type(made.context.gates), "definitions", lambda gates, tree, touched: ["orders.yaml: no such table"]
        )
        return made

    monkeypatch.setattr(type(run), "curator", broken)
    found = run.curate(candidates(run, 1))
    assert run.pages() == {}
    assert found.report.rejections() == {"curator_pass_error": 1}
    assert "no such table" in found.outcomes[0].reason


def test_a_run_that_was_asked_to_end_begins_no_pass(world: MakeWorld, model_server: ModelServer) -> None:
    run = world(FILES)
    run.cancellation.record(KtxError("over", code="budget"))
    found = run.curate(candidates(run, 3))
    assert found.report.rejections() == {"run_ended": 3}
    assert not model_server.model_calls


def test_a_run_of_documents_from_lanes_to_the_next_run(world: MakeWorld, model_server: ModelServer) -> None:
    model_server.play(promotes_all)
    run = world(FILES, limits={"max_knowledge_creates": 1, "max_knowledge_updates": 0})
    found = candidates(run, 3)
    run.documents.lanes["docs", "files"] = DocumentLanes(run.work, candidates=tuple(found))
    curated = run.curate_all()
    (passed,) = run.documents.outcomes(curated)
    assert (passed.status, passed.unit.files) == (UnitStatus.DONE, ("00.md", "01.md", "02.md"))
    (told,) = run.documents.to_json(curated)
    assert told["curation"]["topics_by_verdict"] == {"promoted": 1, "rejected": 2}
    assert json.loads(json.dumps(told)) == told
    again = world(FILES)
    assert [each.key for each in again.documents.earlier["docs", "files"]] == ["t01", "t02"]
    assert [each.report.carried for each in again.curate_all()] == [2]
    assert world(FILES).curate_all() == ()
