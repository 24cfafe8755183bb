"""Which embeddings are offered, and what is missing for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import NotReadyError
from ktx_cli.jobs.setup.detect import models as gateways
from ktx_cli.jobs.setup.detect.models import ModelOffer, embedding_offers
from ktx_cli.project.config.model import KtxConfig

BASE, MINI = "minishlab/potion-base-8M", "sentence-transformers/all-MiniLM-L6-v2"
LIBRARY = "sentence-transformers"
Arrange = Callable[..., None]


@pytest.fixture
def arrange(monkeypatch: pytest.MonkeyPatch) -> Arrange:
    """Say which packages and which models of the hub are here."""

    def say(packages: tuple[str, ...] = (), models: tuple[str, ...] = ()) -> None:
        def folder(model: str, project_dir: Path) -> Path:
            if model in models or (project_dir / model).is_dir():
                return project_dir
            raise NotReadyError(f"{model} is not here", hint=f"hf download {model}")

        monkeypatch.setattr(gateways, "is_installed", lambda package: package in packages)
        monkeypatch.setattr(gateways, "model_folder", folder)

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
