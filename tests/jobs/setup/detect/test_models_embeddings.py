"""Which embeddings are offered, and what is missing for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import NotReadyError
from ktx_cli.jobs.setup.detect import embeddings as detection
from ktx_cli.jobs.setup.detect import models as gateways
from ktx_cli.jobs.setup.detect.embeddings import (
    EmbeddingServer,
    embedding_offers,
    how_to_get_a_model,
    is_embedding_model,
)
from ktx_cli.jobs.setup.detect.models import ModelOffer
from ktx_cli.project.config.model import KtxConfig

BASE, MINI = "minishlab/potion-base-8M", "sentence-transformers/all-MiniLM-L6-v2"
LIBRARY = "sentence-transformers"
Arrange = Callable[..., None]
STATIC, TRANSFORMER = {"config.json": '{"model_type": "model2vec"}'}, {"modules.json": "[]", "config.json": "{}"}


@pytest.fixture
def arrange(monkeypatch: pytest.MonkeyPatch) -> Arrange:
    """Say which packages and which models of the hub are here."""

    def say(packages: tuple[str, ...] = (), models: tuple[str, ...] = ()) -> None:
        def folder(model: str, project_dir: Path) -> Path:
            if model in models or (project_dir / model).is_dir():
                return project_dir
            raise NotReadyError(f"{model} is not here", hint=f"hf download {model}")

        monkeypatch.setattr(detection, "is_installed", lambda package: package in packages)
        monkeypatch.setattr(detection, "model_folder", folder)

    return say


def offers(folder: Path, environ: dict[str, str] | None = None, **settings: Any) -> dict[str, ModelOffer]:
    config = KtxConfig.model_validate({"ingest": {"embeddings": settings}})
    return {each.backend: each for each in embedding_offers(config, project_dir=folder, environ=environ or {})}


@pytest.mark.table(
    ("packages", "models", "hints"),
    [
        ((), (), ["pip install 'ktx-cli[embeddings]'", "pip install 'ktx-cli[sentence-transformers]'"]),
        (("model2vec", "sentence_transformers"), (), [f"hf download {BASE}", f"hf download {MINI}"]),
        (("model2vec", "sentence_transformers"), (BASE,), [None, f"hf download {MINI}"]),
        (("model2vec", "sentence_transformers"), (BASE, MINI), [None, None]),
    ],
)
def test_what_is_missing(
    packages: tuple[str, ...], models: tuple[str, ...], hints: list[str | None], tmp_path: Path, arrange: Arrange
) -> None:
    arrange(packages, models)
    found = offers(tmp_path)
    assert list(found) == ["none", "model2vec", "sentence-transformers"]
    assert found["none"].problem is None and found["none"].settings == {}
    problems = [found["model2vec"].problem, found["sentence-transformers"].problem]
    assert [problem and problem.hint for problem in problems] == hints
    assert all(problem is None or problem.code == "not_ready" for problem in problems)


@pytest.mark.table(
    ("settings", "backend", "model"),
    [
        ({}, "model2vec", BASE),
        ({"backend": "model2vec", "model": "own/model"}, "model2vec", "own/model"),
        ({"backend": "openai", "model": "text-embedding-3-large"}, "model2vec", BASE),
        ({"backend": LIBRARY, "model": "all-MiniLM-L6-v2"}, LIBRARY, "all-MiniLM-L6-v2"),
    ],
)
def test_the_model_of_the_project_is_kept(
    settings: dict[str, str], backend: str, model: str, tmp_path: Path, arrange: Arrange
) -> None:
    arrange(("model2vec", "sentence_transformers"), (BASE, MINI, "own/model"))
    found = offers(tmp_path, **settings)[backend]
    assert (found.settings, found.problem) == ({"model": model}, None)


def test_a_server_needs_nothing_here(tmp_path: Path, arrange: Arrange) -> None:
    arrange()
    server = {"base_url": "http://me:hunter22@127.0.0.1:8080"}
    found = offers(tmp_path, backend="sentence-transformers", sentenceTransformers=server)["sentence-transformers"]
    assert found.problem is None
    assert "hunter22" not in found.label


@pytest.mark.table(
    ("environ", "settings"),
    [
        ({"OPENAI_API_KEY": "sk-1"}, {"model": "text-embedding-3-small", "api_key": "env:OPENAI_API_KEY"}),
        (
            {"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "https://me:hunter22@api.example.com/v1"},
            {"model": "text-embedding-3-small", "api_key": "env:OPENAI_API_KEY", "base_url": "env:OPENAI_BASE_URL"},
        ),
        ({"OPENAI_API_KEY": " "}, None),
        ({"OPENAI_BASE_URL": "https://api.example.com/v1"}, None),
    ],
)
def test_openai(environ: dict[str, str], settings: dict[str, str] | None, tmp_path: Path, arrange: Arrange) -> None:
    arrange()
    found = offers(tmp_path, environ).get("openai")
    assert (found.settings if found else None) == settings
    assert not any(secret in f"{found}" for secret in ("sk-1", "hunter22"))


def test_what_this_machine_really_has(tmp_path: Path) -> None:
    found = offers(tmp_path, backend="model2vec", model="nobody/no-such-model")["model2vec"]
    assert found.problem is not None
    assert found.problem.hint in ("hf download nobody/no-such-model", "pip install 'ktx-cli[embeddings]'")


# -- folders of models -----------------------------------------------------------------------------------------


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def found_in(folder: Path, environ: dict[str, str], **settings: Any) -> list[tuple[str, str]]:
    config = KtxConfig.model_validate({"ingest": {"embeddings": settings}})
    found = embedding_offers(config, project_dir=folder, environ=environ)
    return [(each.backend, each.settings["model"]) for each in found if each.found]


def test_the_folders_in_which_models_usually_are(tmp_path: Path, arrange: Arrange) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    write(project / "models/tiny", STATIC)
    write(project / "models/llama", {"config.json": '{"model_type": "llama"}', "weights.bin": ""})
    write(project / "models/broken", {"config.json": "{"})
    write(home / "models/mini", TRANSFORMER)
    hub = home / ".cache/huggingface/hub"
    write(hub / "models--BAAI--bge-small-en-v1.5/snapshots/abc", TRANSFORMER)
    write(hub / "models--minishlab--potion-base-2M/snapshots/abc", STATIC)
    write(hub / "models--meta--llama/snapshots/abc", {"config.json": "{}"})
    write(hub / "datasets--a--b/snapshots/abc", STATIC)
    models = ("minishlab/potion-base-2M", "BAAI/bge-small-en-v1.5", "~/models/mini")
    arrange(("model2vec", "sentence_transformers"), models)
    environ = {"HOME": str(home)}
    assert found_in(project, environ) == [
        ("model2vec", "models/tiny"),
        ("model2vec", "minishlab/potion-base-2M"),
        (LIBRARY, "~/models/mini"),
        (LIBRARY, "BAAI/bge-small-en-v1.5"),
    ]
    offers_here = embedding_offers(KtxConfig(), project_dir=project, environ=environ)
    assert [each.problem for each in offers_here] == [None] * 5, "the defaults, which are missing, are not offered"
    assert len({each.value + each.found for each in offers_here}) == 5


@pytest.mark.table(
    ("environ", "cache"),
    [
        ({}, "home/.cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "xdg"}, "xdg/huggingface/hub"),
        ({"XDG_CACHE_HOME": "xdg", "HF_HOME": "hf"}, "hf/hub"),
        ({"HF_HOME": "hf", "HF_HUB_CACHE": "cache"}, "cache"),
    ],
)
def test_the_cache_of_the_hub(environ: dict[str, str], cache: str, tmp_path: Path, arrange: Arrange) -> None:
    write(tmp_path / cache / "models--a--b/snapshots/1", STATIC)
    arrange(("model2vec",), ("a/b",))
    variables = {"HOME": str(tmp_path / "home"), **{name: str(tmp_path / value) for name, value in environ.items()}}
    assert found_in(tmp_path / "project", variables) == [("model2vec", "a/b")]
    assert found_in(tmp_path / "project", {}) == []


def test_the_chosen_model_stays_an_offer_and_a_missing_package_is_named(tmp_path: Path, arrange: Arrange) -> None:
    write(tmp_path / "models/tiny", STATIC)
    arrange()
    config = KtxConfig.model_validate({"ingest": {"embeddings": {"backend": "model2vec", "model": "own/model"}}})
    found = [each for each in embedding_offers(config, project_dir=tmp_path, environ={}) if each.backend == "model2vec"]
    assert [each.settings["model"] for each in found] == ["own/model", "models/tiny"]
    assert [each.problem.hint for each in found if each.problem] == ["pip install 'ktx-cli[embeddings]'"] * 2


# -- servers ---------------------------------------------------------------------------------------------------


@pytest.mark.table(
    ("name", "is_one"),
    [
        ("nomic-embed-text:latest", True),
        ("mxbai-embed-large", True),
        ("bge-m3:567m", True),
        ("BAAI/bge-small-en-v1.5", True),
        ("all-minilm:33m", True),
        ("text-embedding-nomic-embed-text-v1.5", True),
        ("intfloat/multilingual-e5-large", True),
        ("paraphrase-multilingual", True),
        ("embeddinggemma:300m", True),
        ("BAAI/bge-reranker-v2-m3", False),
        ("llama3.2:3b", False),
        ("gpt-oss:20b", False),
        ("arctic", False),
        ("", False),
    ],
)
def test_models_for_embeddings_are_told_by_their_names(name: str, is_one: bool) -> None:
    assert is_embedding_model(name) is is_one


def listed(*models: str) -> bytes:
    return json.dumps({"object": "list", "data": [{"id": model} for model in models]}).encode()


@pytest.mark.table(
    ("body", "models"),
    [
        (listed("llama3.2:3b", "nomic-embed-text:latest"), ("nomic-embed-text:latest",)),
        (listed("mxbai-embed-large", "bge-m3", "qwen3:8b"), ("bge-m3", "mxbai-embed-large")),
        (listed("llama3.2:3b"), ()),
        (listed(), ()),
        (b"<html>", ()),
        (b'{"model_id": "BAAI/bge-m3", "model_type": {"embedding": {"pooling": "cls"}}}', ("BAAI/bge-m3",)),
        (b'{"model_id": "BAAI/bge-reranker", "model_type": {"reranker": {}}}', ()),
        (b'{"model_id": "\\u0007", "model_type": {"embedding": {}}}', ()),
        (b'{"model_id": 3, "model_type": {"embedding": {}}}', ()),
    ],
)
def test_a_server_on_this_machine(
    body: bytes,
    models: tuple[str, ...],
    gateway: Any,
    silent_port: int,
    tmp_path: Path,
    arrange: Arrange,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrange()
    monkeypatch.setattr(gateways, "ANSWER_SECONDS", 0.3)
    gateway.body = body
    servers = (EmbeddingServer("Ollama", silent_port), EmbeddingServer("Inference", gateway.port, "/info"))
    monkeypatch.setattr(detection, "EMBEDDING_SERVERS", servers)
    found = [each for each in embedding_offers(KtxConfig(), project_dir=tmp_path, environ={}) if each.found]
    assert [each.models for each in found] == ([models] if models else [])
    for each in found:
        url = f"{gateway.url}/v1"
        assert (each.backend, each.problem, each.settings) == ("openai", None, {"model": models[0], "base_url": url})
        assert each.label.startswith("Inference on this machine (")
    assert gateway.paths[0] == "/v1/models" and set(gateway.paths) <= {"/v1/models", "/info"}


@pytest.mark.table(
    ("packages", "models", "programs", "sentence"),
    [
        ((), (), (), f"pip install 'ktx-cli[embeddings]' && hf download {BASE}"),
        (("model2vec",), (), (), f"hf download {BASE}"),
        (("model2vec",), (), ("ollama",), "ollama pull nomic-embed-text"),
        (("model2vec",), (BASE,), ("ollama",), None),
    ],
)
def test_the_command_that_fetches_a_model(
    packages: tuple[str, ...],
    models: tuple[str, ...],
    programs: tuple[str, ...],
    sentence: str | None,
    tmp_path: Path,
    arrange: Arrange,
) -> None:
    arrange(packages, models)
    for name in programs:
        (tmp_path / name).touch(0o755)
    environ = {"PATH": str(tmp_path), "OPENAI_API_KEY": "sk-1"}
    found = how_to_get_a_model(embedding_offers(KtxConfig(), project_dir=tmp_path, environ=environ), environ)
    assert found == (sentence and f"No embedding model found. To fetch one: {sentence}")
