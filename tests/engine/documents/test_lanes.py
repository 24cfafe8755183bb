"""Documents between planning and running units: which units stay, with which files, and what is skipped."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.core.errors import StorageError
from ktx_cli.documents.raw import RawFile
from ktx_cli.testing.model_script import NO_CREDIT, ModelRequest, Reply, gives, says
from ktx_cli.testing.model_server import ModelServer

TEXT = "A refund is booked in the month in which it is paid.\n"
FILES = {name: f"# {lane}\n\n{TEXT}" for name, lane in (("a.md", "full"), ("b.md", "light"), ("c.md", "skip"))}
MakeWorld = Callable[..., Any]


def fact(topic: str) -> dict[str, Any]:
    scores = dict.fromkeys(("durability", "authority", "reuse", "novelty", "risk"), 1)
    texts = {"topic": topic, "assertion": f"{topic} is so.", "rationale": "", "page": None, "hint": "create"}
    return {**texts, "passages": ["p1"], **scores}


def answer(request: ModelRequest) -> Reply:
    """Answer about lanes with the title, about facts with one that is called as the file."""
    said = request.body["messages"][0]["content"][0]["text"]
    title, path = (re.search(rf"{name}: (.+)", said)[1] for name in ("title", "path"))  # type: ignore[index]
    if "p1:" in said:
        return gives({"candidates": [fact(path)]})
    return gives({"lane": title, "reason": "so it is"})


def test_each_document_goes_its_way(world: MakeWorld, model_server: ModelServer) -> None:
    model_server.play(answer)
    run = world({**FILES, "empty.md": "# Nothing\n", "broken.pdf": "no pdf"})
    found = run.sort()
    assert [unit.key for unit in found.units] == ["a.md"]
    narrowed = run.documents.narrowed(run.work)
    assert narrowed.units == found.units
    assert sorted(found.skipped) == ["broken.pdf", "c.md", "empty.md"]
    assert (found.light, found.full) == (("b.md",), ("a.md",))
    assert [each.topic for each in found.candidates] == ["b.md"]
    assert [each.code for each in found.warnings] == ["document_unreadable"]
    assert narrowed.skipped_files == found.skipped
    told = run.documents.to_json([])[0]["lanes"]
    assert (told["candidates"], told["triage"]["asked"], told["extraction"]["asked"]) == (1, 3, 1)
    json.dumps(told)


def test_a_unit_of_several_documents_keeps_those_of_the_full_lane(world: MakeWorld, model_server: ModelServer) -> None:
    model_server.play(answer)
    other = {"d.md": f"# skip\n\n{TEXT}more"}
    found = world({**FILES, **other}, units=[("a.md", "b.md", "c.md"), ("d.md",)]).sort()
    assert [(unit.key, unit.files) for unit in found.units] == [("a.md", ("a.md",))]
    assert found.units[0].label == "1 document, of a.md"


def test_a_second_run_asks_nothing(world: MakeWorld, model_server: ModelServer) -> None:
    model_server.play(answer)
    first = world(FILES).sort()
    model_server.play([])
    again = world(FILES).sort()
    assert (again.units, again.skipped, again.candidates) == (first.units, first.skipped, first.candidates)
    assert not model_server.model_calls


def test_failures_open_the_full_lane_with_a_warning(world: MakeWorld, model_server: ModelServer) -> None:
    def fails(request: ModelRequest) -> Reply:
        said = request.body["messages"][0]["content"][0]["text"]
        return answer(request) if "title: light" in said and "p1:" not in said else says("", stop_reason="refusal")

    model_server.play(fails)
    found = world(FILES).sort()
    assert [unit.key for unit in found.units] == ["a.md", "b.md", "c.md"]
    assert (found.triage.failures, found.extraction.failures) == (2, 1)
    assert [each.code for each in found.warnings] == ["triage_failed", "triage_failed"]
    assert "2 documents could not be sorted" in found.warnings[0].message


def test_an_error_that_ends_the_run_leaves_every_unit_to_be_left(world: MakeWorld, model_server: ModelServer) -> None:
    model_server.play(lambda request: NO_CREDIT)
    run = world(FILES)
    found = run.sort()
    assert run.cancellation.error is not None
    assert run.cancellation.error.code == "billing"
    assert len(found.units) == 3
    assert found.warnings == ()
    assert len(model_server.model_calls) <= 2


def test_a_run_that_was_asked_to_end_asks_nothing(world: MakeWorld, model_server: ModelServer) -> None:
    run = world(FILES)
    run.cancellation.requested = True
    assert len(run.sort().units) == 3
    assert not model_server.model_calls


def test_a_file_that_is_gone_meanwhile_stays_with_its_unit(world: MakeWorld, model_server: ModelServer) -> None:
    def gone() -> bytes:
        raise StorageError("a.md is gone", hint="look")

    model_server.play(answer)
    run = world(FILES)
    files = run.work.snapshot.files
    files["a.md"] = RawFile("a.md", files["a.md"].sha256, 9, gone)
    found = run.sort()
    assert [unit.key for unit in found.units] == ["a.md"]
    assert "a.md" not in found.skipped


def test_light_documents_nobody_decided_on_count_as_new(world: MakeWorld, model_server: ModelServer) -> None:
    model_server.play(answer)
    run = world(FILES)
    run.sort()
    (left,) = run.documents.outcomes([])
    assert (left.status.value, left.unit.files) == ("left", ("b.md",))


@pytest.mark.parametrize("files", [{}, {"x.md": ""}])
def test_a_source_with_nothing_to_sort(world: MakeWorld, files: dict[str, str]) -> None:
    run = world(files, units=[tuple(files)] if files else [])
    if files:
        assert run.sort().units == ()
    assert run.documents.outcomes([]) == []
