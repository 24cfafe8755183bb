"""What setup would do: shown truly, without a secret, and without doing any of it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import KtxError, UsageError
from ktx_cli.jobs.clients.targets import Target
from ktx_cli.jobs.setup.answers import (
    AgentsAnswer,
    Answers,
    Build,
    ConnectionAnswer,
    EmbeddingAnswer,
    Keeping,
    ModelAnswer,
)
from ktx_cli.jobs.setup.request import SetupRequest
from ktx_cli.jobs.setup.setup import Preview, preview, setup
from tests.jobs.setup.conftest import Ring

URL = "postgresql://u:canary-pw@127.0.0.1:1/d"
ALL = Answers(
    llm=ModelAnswer("anthropic", {"default": "m"}, {"api_key": "canary-key"}),
    embeddings=EmbeddingAnswer("openai", "e", api_key="canary-vectors"),
    databases=(
        ConnectionAnswer({"driver": "postgres", "url": URL}, "pg"),
        ConnectionAnswer({"driver": "sqlite", "path": "none.sqlite"}),
    ),
    sources=(ConnectionAnswer({"driver": "metabase", "api_url": "http://127.0.0.1:1", "api_key": "canary-bi"}),),
    build=Build.STRUCTURE,
    agents=AgentsAnswer((Target.CODEX, Target.CURSOR)),
)

Request = Callable[..., SetupRequest]


@pytest.fixture
def request_for(folder: Path, machine: dict[str, str]) -> Request:
    def made(answers: Answers = ALL, **fields: Any) -> SetupRequest:
        return SetupRequest(fields.pop("project_dir", folder), machine, answers, **fields)

    return made


@pytest.fixture
def no_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*args: Any) -> None:
        raise AssertionError("something is connected to")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr("ktx_cli.jobs.setup.setup.check_connection_of", connect)


def _tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        seen = path.lstat()
        found[str(path)] = (seen.st_mode, seen.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
    return found


def test_of_a_new_project(request_for: Request, folder: Path, no_way_out: None) -> None:
    before = _tree(folder.parent)
    shown = preview(request_for())
    assert _tree(folder.parent) == before
    assert dict(shown.steps) == {
        "project": f"create ktx.yaml in {folder}",
        "git": f"create a repository in {folder}",
        "test": "test the models, the embeddings, pg, the sqlite connection, the metabase connection",
        "secrets": "store llm-anthropic-api-key, embeddings-api-key, pg-url, metabase-api-key in the file",
        "ktx.yaml": "save and commit it",
        "build": "read the structure of the databases",
        "agents": "install the project in codex, cursor",
    }
    assert "canary" not in str(shown.to_json())


def test_no_folder_yet(request_for: Request, folder: Path) -> None:
    request = request_for(project_dir=folder / "deep" / "er")
    assert preview(request).steps[0] == ("project", f"create ktx.yaml in {folder / 'deep' / 'er'}")
    assert not (folder / "deep").exists()


@pytest.mark.parametrize("keeping", Keeping)
def test_it_shows_what_setup_writes(request_for: Request, folder: Path, keeping: Keeping, ring: Ring) -> None:
    (folder / "ktx.yaml").write_text("# mine\nllm: {provider: {backend: none}}\n")
    (folder / ".ktx" / "secrets").mkdir(parents=True)
    (folder / ".ktx" / "secrets" / "pg-url").write_text("another\n")
    answers = Answers(ALL.llm, ALL.embeddings, ALL.databases, ALL.sources, keeping=keeping)
    shown = preview(request_for(answers))
    setup(request_for(answers, test=False))
    added = [line[1:] for line in shown.diff if line.startswith("+") and not line.startswith("+++")]
    assert [line for line in (folder / "ktx.yaml").read_text().splitlines() if line != "# mine"] == added
    assert any(("pg-url-2" if keeping is Keeping.FILE else "keyring:ktx-") in line for line in added)


def test_a_second_time_nothing_would_change(request_for: Request, folder: Path, no_way_out: None) -> None:
    answers = Answers(ALL.llm, ALL.embeddings, ALL.databases, ALL.sources)
    setup(request_for(answers, test=False))
    before = _tree(folder)
    shown = preview(request_for(answers))
    assert (shown.diff, "ktx.yaml" in dict(shown.steps)) == ((), False)
    assert _tree(folder) == before


def test_a_secret_that_stands_in_the_file_is_masked(request_for: Request, folder: Path) -> None:
    text = "connections:\n  pg: {driver: postgres, host: h, database: d, username: u, password: canary-pw}\n"
    (folder / "ktx.yaml").write_text(text)
    shown = preview(request_for(Answers(databases=(ConnectionAnswer({"driver": "postgres", "port": 1}, "pg"),))))
    assert "canary" not in str(shown.to_json())
    assert any("password: ***" in line for line in shown.diff)


@pytest.mark.parametrize("how", [{}, {"test": False}])
def test_whether_it_tries(request_for: Request, how: dict[str, Any]) -> None:
    assert ("test" in dict(preview(request_for(**how)).steps)) == (how == {})


@pytest.mark.parametrize(
    "answers",
    [
        Answers(databases=(ConnectionAnswer({"driver": "sqlite"}),)),
        Answers(databases=(ConnectionAnswer({"driver": "sqlite", "path": "x"}, "../x"),)),
        Answers(llm=ModelAnswer("gateway", provider={"location": "x"})),
    ],
)
def test_it_refuses_what_setup_refuses(request_for: Request, folder: Path, answers: Answers) -> None:
    before, said = _tree(folder.parent), []
    for do in (preview, setup):
        with pytest.raises(KtxError) as caught:
            do(request_for(answers))  # type: ignore[operator]
        said.append((caught.value.code, caught.value.message, caught.value.hint))
    assert said[0] == said[1]
    assert _tree(folder.parent) == before


@pytest.mark.parametrize("below", ["", "project", "a/project"])
def test_a_file_in_place_of_the_folder(request_for: Request, folder: Path, below: str) -> None:
    for do in (preview, setup):
        with pytest.raises(UsageError, match=r"shop\.sqlite is not a folder"):
            do(request_for(project_dir=folder / "shop.sqlite" / below))  # type: ignore[operator]


def test_nothing_to_do(request_for: Request, folder: Path) -> None:
    (folder / "ktx.yaml").write_text("llm: {provider: {backend: none}}\n")
    assert preview(request_for(Answers())) == Preview(folder, (), ())


CLEAR = """\
connections:
  pg: {driver: postgres, host: h, database: d, password: "canary \\"of old"}
  sf:
    driver: snowflake
    private_key: |
      -----BEGIN PRIVATE KEY-----
      canary-line
      -----END PRIVATE KEY-----
    account: a
    password: canary
"""


@pytest.mark.parametrize(
    "answer",
    [
        ConnectionAnswer({"driver": "postgres", "password": "env:NEW"}, "pg"),
        ConnectionAnswer({"driver": "snowflake", "account": "b"}, "sf"),
        ConnectionAnswer({"driver": "snowflake", "password": "env:NEW"}, "sf"),
    ],
    ids=lambda answer: f"{answer.id} {list(answer.fields)[-1]}",
)
def test_secrets_that_stand_there_are_in_no_line_of_the_difference(
    answer: ConnectionAnswer, request_for: Request, folder: Path
) -> None:
    """Not in a line that goes, and not in those around it; several lines of a key neither."""
    folder.mkdir(exist_ok=True)
    (folder / "ktx.yaml").write_text(CLEAR)
    plan = preview(request_for(Answers(databases=(answer,))))
    told = "\n".join(plan.diff)
    assert "env:NEW" in told or "account: b" in told
    assert "canary" not in told and "PRIVATE KEY" not in told
