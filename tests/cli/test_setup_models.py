"""`ktx setup` of the model and of the embeddings: by flags and by a file, and what a probe that fails leaves behind."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.testing.model_script import UNAUTHORIZED, says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.test_setup_drivers import tree
from tests.llm.test_embeddings import Server

Run = Callable[..., Any]
VECTOR = {"data": [{"index": 0, "embedding": [0.1, 0.2, 0.3]}]}


@pytest.fixture
def vectors(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr("ktx_cli.llm.embeddings.wait", lambda seconds: None)
    server = Server()
    server.answers = [(200, VECTOR)]
    yield server
    server.stop()


@pytest.fixture
def both(model_server: ModelServer, vectors: Server) -> tuple[str, list[str]]:
    """The same answers as a file and as flags; the keys are given in clear."""
    text = f"""
llm: {{backend: gateway, model: m, models: {{repair: r}}, api_key: canary-key, base_url: {model_server.url}}}
embeddings: {{backend: openai, model: e, dimensions: 3, api_key: canary-vectors, base_url: {vectors.url}}}
"""
    flags = [
        "--llm-backend", "gateway", "--llm-role", "repair=r", "--llm-model", "m", "--llm-api-key", "canary-key",
        "--llm-base-url", model_server.url, "--embeddings", "openai", "--embedding-model", "e",
        "--embedding-dimensions", "3", "--embedding-api-key", "canary-vectors", "--embedding-base-url", vectors.url,
    ]  # fmt: skip
    return text, flags


def test_both_ways_tried_for_real(
    ktx: Run, work: Path, both: tuple[str, list[str]], model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_server.play(lambda _: says("ready"))
    text, flags = both
    (work / "answers.yaml").write_text(text)
    ways = {"by-flags": flags, "by-file": ["--answers", "../answers.yaml"]}
    for name, typed in ways.items():
        (work / name).mkdir()
        monkeypatch.chdir(work / name)
        answer = ktx("setup", *typed, "--json", "--debug")
        assert answer.code == 0, answer
        assert answer.data["embeddings"]["dimensions"] == 3
        assert {each["ok"] for each in answer.data["probes"]} == {True} and len(answer.data["probes"]) == 2
        assert "canary" not in answer.out + answer.err
    made = tree(work / "by-flags")
    assert made == tree(work / "by-file")
    for typed in ways.values():
        again = ktx("setup", *typed, "--json")
        assert (again.code, again.data["changed"]) == (0, False)
    assert tree(work / "by-file") == made


@pytest.mark.parametrize("which", ["the model", "the embeddings", "the length"])
def test_a_probe_that_fails_saves_nothing(
    ktx: Run, work: Path, both: tuple[str, list[str]], model_server: ModelServer, vectors: Server, which: str
) -> None:
    model_server.play(lambda _: UNAUTHORIZED if which == "the model" else says("ready"))
    if which == "the embeddings":
        vectors.answers = [(401, {"error": {"message": "no such key: canary-vectors"}})]
    if which == "the length":
        vectors.answers = [(200, {"data": [{"index": 0, "embedding": [0.1, 0.2]}]})]
    answer = ktx("setup", *both[1], "--json", "--debug")
    expected = (1, "execution") if which == "the length" else (3, "auth")
    assert (answer.code, answer.envelope["error"]["code"]) == expected
    assert answer.envelope["error"]["hint"]
    assert "canary" not in answer.out + answer.err
    assert list(work.iterdir()) == []


def test_a_probe_that_fails_changes_nothing_that_is_there(
    ktx: Run, project: Path, both: tuple[str, list[str]], model_server: ModelServer
) -> None:
    model_server.play(lambda _: UNAUTHORIZED)
    before = tree(project)
    assert ktx("setup", *both[1]).code == 3
    assert tree(project) == before


@pytest.mark.parametrize(
    ("backend", "flags", "path"),
    [
        ("openai", ["--llm-api-key", "env:THE_KEY"], "/v1/responses"),
        ("openai-compatible", [], "/v1/chat/completions"),
        ("openai-compatible", ["--llm-api", "responses", "--llm-api-key", "env:THE_KEY"], "/v1/responses"),
        ("openai-compatible", ["--llm-auth", "key", "--llm-api-key", "env:THE_KEY"], "/v1/chat/completions"),
    ],
    ids=["openai", "no key", "responses", "azure"],
)
def test_openai_and_a_compatible_server(
    ktx: Run, work: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch,
    backend: str, flags: list[str], path: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("THE_KEY", "sk-canary")
    model_server.play(lambda _: says("ready"))
    named = ["--llm-backend", backend, "--llm-model", "gpt-6.2-sol", "--llm-base-url", f"{model_server.url}/v1"]
    answer = ktx("setup", *named, *flags, "--json")
    assert answer.code == 0, answer
    assert [probe["ok"] for probe in answer.data["probes"]] == [True]
    assert ktx("llm", "ask", "hello").out == "ready\n"
    assert ktx("doctor", "--only", "llm", "--only", "probe").code == 0
    assert {request.path for request in model_server.requests} == {path}
    assert "sk-canary" not in (work / "ktx.yaml").read_text()


@pytest.mark.parametrize("backend", ["openai", "openai-compatible"])
def test_without_the_package_of_openai(ktx: Run, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    flags = ["--llm-model", "m", "--llm-api-key", "env:HOME", "--llm-base-url", "http://127.0.0.1:9/v1"]
    answer = ktx("setup", "--llm-backend", backend, *flags)
    assert answer.code == 2
    assert f"error: the backend `{backend}` requires the package openai" in answer.err
    assert "hint: pip install 'ktx-cli[openai]'" in answer.err


def test_doctor_finds_the_missing_package_of_openai(ktx: Run, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = "{backend: openai-compatible, openai_compatible: {base_url: 'http://127.0.0.1:9/v1'}}"
    (work / "ktx.yaml").write_text(f"llm: {{provider: {provider}, models: {{default: m}}}}\n")
    assert ktx("doctor", "--only", "llm").code == 0
    monkeypatch.setitem(sys.modules, "openai", None)
    answer = ktx("doctor", "--only", "llm")
    assert answer.code != 0
    assert "the backend `openai-compatible` requires the package openai" in " ".join(answer.out.split())
    assert "pip install 'ktx-cli[openai]'" in answer.out
