"""Every maker of vectors: what it sends, what it takes for an answer, and the errors somebody reads."""

from __future__ import annotations

import json
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import Any

import pytest

from ktx_cli.core.errors import KtxError
from ktx_cli.llm.embeddings import Endpoint, LocalEmbedder, Model2VecEmbedder, StatesLength, create_embedder
from ktx_cli.project.config.blocks import Embeddings, Retry
from ktx_cli.project.config.model import KtxConfig

Answer = tuple[int, Any]


class Server:
    """Answers with what it was told, one answer a request, the last one for ever; keeps the requests."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                status, answer = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                content = answer(body) if callable(answer) else answer
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.stop()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waits: list[float] = []
    monkeypatch.setattr("ktx_cli.llm.embeddings.wait", waits.append)
    return waits


@pytest.fixture(autouse=True)
def environment_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_PROGRESS_BARS"):
        monkeypatch.setenv(name, "")


def config(**embeddings: Any) -> KtxConfig:
    return KtxConfig.model_validate({"ingest": {"embeddings": embeddings}})


def embed(
    tmp_path: Path, texts: list[str], environ: dict[str, str] | None = None, **settings: Any
) -> list[list[float]]:
    embedder = create_embedder(config(**settings), tmp_path, environ or {})
    assert embedder is not None
    return embedder.embed(texts)


def backwards(body: Any) -> Any:
    """Answer as OpenAI does, in another order than asked."""
    vectors = [{"index": place, "embedding": [float(place), 1.0]} for place in range(len(body["input"]))]
    return {"data": vectors[::-1]}


def test_none_is_none(tmp_path: Path) -> None:
    assert create_embedder(config(), tmp_path, {}) is None


def test_openai_sends_texts_and_puts_vectors_in_order(tmp_path: Path, server: Server) -> None:
    server.answers = [(200, backwards)]
    openai = {"api_key": "env:KEY", "base_url": f"{server.url}/v1/"}
    found = embed(
        *(tmp_path, ["a", ""], {"KEY": "secret-key"}), backend="openai", model="m", dimensions=2, openai=openai
    )
    assert found == [[0.0, 1.0], [1.0, 1.0]]
    ((path, headers, body),) = server.requests
    assert (path, headers["authorization"]) == ("/v1/embeddings", "Bearer secret-key")
    assert body == {"model": "m", "input": ["a", " "], "dimensions": 2}


def test_a_local_server_needs_no_key(tmp_path: Path, server: Server) -> None:
    server.answers = [(200, backwards)]
    embed(tmp_path, ["a"], backend="openai", openai={"base_url": server.url})
    assert "authorization" not in server.requests[0][1]


def test_openai_itself_needs_a_key(tmp_path: Path) -> None:
    with pytest.raises(KtxError) as caught:
        create_embedder(config(backend="openai"), tmp_path, {"OPENAI_API_KEY": "is not taken unasked"})
    assert caught.value.code == "not_ready"
    assert caught.value.hint == "ktx config set ingest.embeddings.openai.api_key env:OPENAI_API_KEY"


def test_sentence_transformers_of_a_server(tmp_path: Path, server: Server) -> None:
    server.answers = [(200, {"embeddings": [[1, 2.5]]})]
    settings = {"base_url": f"{server.url}/", "pathPrefix": "/api/"}
    assert embed(tmp_path, ["a"], backend="sentence-transformers", sentenceTransformers=settings) == [[1.0, 2.5]]
    assert [(path, body) for path, _, body in server.requests] == [("/api/embeddings/compute-bulk", {"texts": ["a"]})]


def test_what_may_pass_is_asked_again(tmp_path: Path, server: Server, no_waiting: list[float]) -> None:
    server.answers = [(429, {}), (503, {}), (200, backwards)]
    embed(tmp_path, ["a"], backend="openai", openai={"base_url": server.url})
    assert len(server.requests) == 3
    assert len(no_waiting) == 2
    assert 0 < no_waiting[0] <= 1 < 2 * no_waiting[0] + no_waiting[1]


@pytest.mark.table(
    ("status", "answer", "code", "requests"),
    [
        (401, {}, "auth", 1),
        (404, {}, "model", 1),
        (400, {}, "execution", 1),
        (429, {}, "rate_limit", 6),
        (500, {}, "overloaded", 6),
        (200, b"<html>", "execution", 1),
        (200, [], "execution", 1),
        (200, {"data": []}, "execution", 1),
        (200, {"data": [{"index": 0, "embedding": "abc"}]}, "execution", 1),
        (200, {"data": [{"index": 0, "embedding": [None]}]}, "execution", 1),
        (200, {"data": [{"index": 0, "embedding": []}]}, "execution", 1),
    ],
)
def test_answers_that_are_no_vectors(status: int, answer: Any, code: str, requests: int, tmp_path: Path) -> None:
    server = Server()
    try:
        server.answers = [(status, answer)]
        with pytest.raises(KtxError) as caught:
            embed(tmp_path, ["a"], backend="openai", openai={"base_url": server.url, "api_key": "the-secret"})
    finally:
        server.stop()
    assert (caught.value.code, len(server.requests)) == (code, requests)
    assert caught.value.hint
    assert "the-secret" not in str(caught.value.to_json())


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KtxError) as caught:
        embed(tmp_path, ["a"], backend="openai", openai={"base_url": "http://127.0.0.1:9"})
    assert caught.value.code == "connection"
    assert caught.value.hint == "ktx config set ingest.embeddings.openai.base_url URL"


def test_vectors_of_another_length_than_said(tmp_path: Path, server: Server) -> None:
    server.answers = [(200, backwards)]
    with pytest.raises(KtxError) as caught:
        embed(tmp_path, ["a"], backend="openai", dimensions=3, openai={"base_url": server.url})
    assert caught.value.hint == "ktx config set ingest.embeddings.dimensions 2"


@pytest.mark.table(
    ("backend", "hint"),
    [
        ("model2vec", "hf download nobody/no-such-model"),
        ("sentence-transformers", "pip install 'ktx-cli[sentence-transformers]'"),
    ],
)
def test_a_model_that_is_not_here_is_not_fetched(backend: str, hint: str, tmp_path: Path) -> None:
    if backend == "model2vec":
        pytest.importorskip("model2vec")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "sentence_transformers", None)
        with pytest.raises(KtxError) as caught:
            embed(tmp_path, ["a"], backend=backend, model="nobody/no-such-model")
    assert (caught.value.code, caught.value.hint) == ("not_ready", hint)
    assert os.environ["HF_HUB_OFFLINE"] == "1"


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    pytest.importorskip("model2vec")
    (tmp_path / "model").mkdir()
    with pytest.raises(KtxError) as caught:
        embed(tmp_path, ["a"], backend="model2vec", model="model")
    assert caught.value.code == "not_ready"
    assert "does not contain a Model2Vec model" in caught.value.message


def small_model(folder: Path) -> None:
    numpy = pytest.importorskip("numpy")
    static = pytest.importorskip("model2vec").StaticModel
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "left": 1, "right": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    table = numpy.array([[0, 0, 0], [1, 0, 2], [0, 1, 2]], dtype="float32")
    static(table, tokenizer, {}, normalize=False).save_pretrained(folder)


def test_a_model2vec_folder_of_the_project(tmp_path: Path) -> None:
    small_model(tmp_path / "model")
    found = embed(tmp_path, ["left", "right", "left right"], backend="model2vec", model="model")
    assert found == [[1, 0, 2], [0, 1, 2], [0.5, 0.5, 2]]
    cut = embed(tmp_path, ["left"], backend="model2vec", model="model", dimensions=2)
    assert cut == [[1, 0]]


def model2vec_of(folder: Path, **settings: Any) -> Model2VecEmbedder:
    return Model2VecEmbedder.of(Embeddings(backend="model2vec", model="model", **settings), folder)


def test_a_model2vec_folder_states_the_length_of_its_vectors(tmp_path: Path) -> None:
    small_model(tmp_path / "model")
    for dimensions, length in ((None, 3), (2, 2)):
        found = model2vec_of(tmp_path, dimensions=dimensions)
        assert isinstance(found, StatesLength)
        assert found.stated_length() == length == len(found.embed(["left"])[0])
    for damage in (b"", b"\0" * 8, b"\x02" + b"\0" * 7 + b"{}", b"\xff" * 20):
        (tmp_path / "model" / "model.safetensors").write_bytes(damage)
        assert model2vec_of(tmp_path).stated_length() is None


@pytest.mark.parametrize(
    ("parts", "dimensions", "length"),
    [
        ({"": {"hidden_size": 7}, "1_Pooling": {"word_embedding_dimension": 7}, "2_Normalize": None}, None, 7),
        ({"": {}, "1_Pooling": {"word_embedding_dimension": 7}, "2_Dense": {"out_features": 5}}, None, 5),
        ({"": {}, "1_Pooling": {"word_embedding_dimension": 7}}, 4, 4),
        ({"": {}}, None, None),
        ({"": []}, None, None),
        ({}, None, None),
    ],
)
def test_the_folder_of_a_sentence_transformer_states_it_too(
    parts: dict[str, Any], dimensions: int | None, length: int | None, tmp_path: Path
) -> None:
    for path, settings in parts.items():
        (tmp_path / "model" / path).mkdir(parents=True, exist_ok=True)
        if settings is not None:
            (tmp_path / "model" / path / "config.json").write_text(json.dumps(settings))
    if parts:
        (tmp_path / "model" / "modules.json").write_text(json.dumps([{"path": path} for path in parts]))
    assert LocalEmbedder("model", tmp_path, dimensions, 8).stated_length() == length


def test_sentence_transformers_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []

    class Vectors(list[list[float]]):
        def tolist(self) -> list[list[float]]:
            return list(self)

    class Model:
        def __init__(self, name: str, **options: Any) -> None:
            made.append({"name": name, **options})

        def encode(self, texts: list[str], **_: Any) -> Vectors:
            assert turn.acquire(blocking=False), "two threads at once"
            sleep(0.002)
            turn.release()
            return Vectors([float(len(text)), 1.0] for text in texts)

    turn = threading.Lock()
    module: Any = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = Model
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    assert embed(tmp_path, ["ab"], backend="sentence-transformers", model="m") == [[2.0, 1.0]]
    assert made == [{"name": "m", "local_files_only": True, "truncate_dim": None}]
    assert os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] == "1"
    (tmp_path / "m").mkdir()
    settings = config(backend="sentence-transformers", model="m")
    embedder = create_embedder(settings, tmp_path, {})
    assert embedder is not None
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(embedder.embed, [["a"], ["ab"], ["abc"], ["abcd"]]))[3] == [[4.0, 1.0]]
    assert made[1:] == [{"name": str(tmp_path / "m"), "local_files_only": True, "truncate_dim": None}]


@pytest.mark.parametrize(
    ("kind", "loads"),
    [
        ("sentence_transformers.models.Transformer", True),
        ("evil.Module", False),
        ("sentence_transformers_evil.A", False),
    ],
)
def test_a_model_with_code_of_its_own_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, loads: bool
) -> None:
    """The package imports what `modules.json` of a folder names, and the folder could have come with the project."""
    made: list[str] = []
    module: Any = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = lambda name, **_: made.append(name) or SimpleNamespace(encode=lambda *_, **__: None)
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": kind}]))
    with pytest.raises(AttributeError if loads else KtxError) as caught:
        embed(tmp_path, ["a"], backend="sentence-transformers", model="m")
    assert made == ([str(tmp_path / "m")] if loads else [])
    assert loads or "runs its own code" in str(caught.value)


def test_one_attempt_is_one(server: Server) -> None:
    server.answers = [(500, {})]
    retry = Retry(maxAttempts=1)
    refused: Callable[[], Any] = lambda: Endpoint(server.url, "x", retry).post({})  # noqa: E731
    with pytest.raises(KtxError):
        refused()
    assert len(server.requests) == 1
