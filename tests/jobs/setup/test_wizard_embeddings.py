"""The embeddings step of the wizard with a scripted server on this machine: offered, tried, then saved."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.jobs.setup.answers import SetupStep
from ktx_cli.jobs.setup.detect import embeddings as detection
from ktx_cli.jobs.setup.detect.embeddings import EmbeddingServer
from ktx_cli.project import load_config
from tests.jobs.setup.conftest import Person

Wizard = Callable[..., Any]
WHICH, NOTHING_THERE = "Enable semantic search, too?", "No embedding model found"


class EmbeddingApi:
    """Implements `GET /v1/models` and `POST /v1/embeddings`; `requests` are the models and keys that were sent."""

    def __init__(self, *models: str) -> None:
        self.models, self.status = models, 200
        self.requests: list[tuple[str, str | None]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(200, {"data": [{"id": model, "object": "model"} for model in outer.models]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.requests.append((body["model"], self.headers.get("authorization")))
                data = [{"index": at, "embedding": [0.6, 0.8, 0.0]} for at, _ in enumerate(body["input"])]
                self.answer(outer.status if self.path == "/v1/embeddings" else 404, {"data": data})

            def answer(self, status: int, value: Any) -> None:
                content = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingApi]:
    found = EmbeddingApi("llama3.2:3b", "nomic-embed-text:latest")
    monkeypatch.setattr(detection, "EMBEDDING_SERVERS", (EmbeddingServer("Ollama", found.port),))
    yield found
    found.stop()


def settings(folder: Path) -> Any:
    return load_config(folder / "ktx.yaml").config.ingest.embeddings


def test_it_is_proposed_tried_and_saved(folder: Path, wizard: Wizard, api: EmbeddingApi) -> None:
    person = Person()
    report = wizard(person, SetupStep.EMBEDDINGS, test=True)
    assert person.proposed[WHICH] == f"openai {api.url}"
    assert person.questions[1:] == [WHICH], "nothing else needs to be asked"
    assert api.requests == [("nomic-embed-text:latest", None)]
    assert (report.embeddings.model, report.embeddings.dimensions) == ("openai:nomic-embed-text:latest", 3)
    found = settings(folder)
    assert (found.backend, found.model, found.openai.base_url) == ("openai", "nomic-embed-text:latest", api.url)
    assert found.openai.api_key is None
    assert not any(said.startswith(NOTHING_THERE) for said in person.said)


def test_one_of_several_models(folder: Path, wizard: Wizard, api: EmbeddingApi) -> None:
    api.models = ("bge-m3", "mxbai-embed-large")
    person = Person({"Which embedding model?": "mxbai-embed-large"})
    wizard(person, SetupStep.EMBEDDINGS, test=True)
    assert person.proposed["Which embedding model?"] == "bge-m3"
    assert settings(folder).model == "mxbai-embed-large"


def test_a_key_for_another_server_is_not_sent_to_this_one(folder: Path, wizard: Wizard, api: EmbeddingApi) -> None:
    wizard(Person(), SetupStep.PROJECT)
    with (folder / "ktx.yaml").open("a") as stream:
        stream.write("ingest:\n  embeddings:\n    backend: openai\n    openai: {api_key: env:OPENAI_API_KEY}\n")
    assert settings(folder).openai.api_key == "env:OPENAI_API_KEY"
    script = {"Change the embeddings": True, WHICH: f"openai {api.url}"}
    wizard(Person(script), SetupStep.EMBEDDINGS, test=True)
    assert api.requests == [("nomic-embed-text:latest", None)]
    assert settings(folder).openai.api_key is None


def test_what_does_not_answer_is_not_saved(
    folder: Path, wizard: Wizard, api: EmbeddingApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktx_cli.llm.embeddings.wait", lambda seconds: None)
    api.status = 404
    person = Person({"What do you want to do?": "leave"})
    wizard(person, SetupStep.EMBEDDINGS, test=True)
    assert api.requests
    assert settings(folder).backend == "none"


def test_a_folder_of_a_model(folder: Path, wizard: Wizard, machine: dict[str, str]) -> None:
    model = Path(machine["HOME"]) / "models/tiny"
    _static_model(model)
    person = Person()
    report = wizard(person, SetupStep.EMBEDDINGS, test=True)
    assert person.proposed[WHICH] == "model2vec ~/models/tiny"
    assert report.embeddings.dimensions == 4
    assert (settings(folder).backend, settings(folder).model) == ("model2vec", "~/models/tiny")


def test_a_folder_without_the_model_in_it(folder: Path, wizard: Wizard, machine: dict[str, str]) -> None:
    model = Path(machine["HOME"]) / "models/broken"
    model.mkdir(parents=True)
    (model / "config.json").write_text('{"model_type": "model2vec"}')
    person = Person({"What do you want to do?": "leave"})
    wizard(person, SetupStep.EMBEDDINGS, test=True)
    assert any("does not contain a Model2Vec model" in said for said in person.said)
    assert settings(folder).backend == "none"


def test_one_sentence_says_how_to_get_a_model(folder: Path, wizard: Wizard) -> None:
    person = Person()
    wizard(person, SetupStep.EMBEDDINGS)
    (said,) = [said for said in person.said if said.startswith(NOTHING_THERE)]
    assert "hf download minishlab/potion-base-8M" in said
    assert settings(folder).backend == "none"


def _static_model(folder: Path) -> None:
    """Write a model of eight words and four dimensions."""
    static = pytest.importorskip("model2vec").StaticModel
    import numpy
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = ["[UNK]", "revenue", "orders", "customers", "net", "refund", "tax", "ktx"]
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    vectors = numpy.eye(len(words), 4, dtype="float32") + 0.1
    static(vectors, tokenizer, config={"model_type": "model2vec"}).save_pretrained(folder)
