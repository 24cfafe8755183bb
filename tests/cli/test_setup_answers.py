"""`ktx setup --answers`: what a file may say, what it is told where it says something else, and what never gets out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml

Run = Callable[..., Any]
Git = Callable[..., str]

SQLITE = "databases: {shop: {driver: sqlite, path: shop.sqlite}}\n"
TAG = "the tag !*** is unknown or does not match its value"
POSTGRES = "driver: postgres, host: h, database: d, username: u"
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
WRONG = [
    ("[1]", "answers.yaml is not a mapping of answers", "for example: databases:"),
    ("false", "answers.yaml is not a mapping of answers", "for example: databases:"),
    ("database: {}", "`database` is not a setup answer", "did you mean `databases`?"),
    ("llm: {api_kye: canary-pw}", "`llm.api_kye` is not a setup answer", "did you mean `api_key`?"),
    ("embeddings: {zzz: canary-pw}", "`embeddings.zzz` is not a setup answer", "one of backend, model, dim"),
    ("llm: {api_key: [canary-pw]}", "`llm.api_key` must be a text, not a list", "write a text"),
    ("llm: {models: {triage: 5}}", "`llm.models.triage` must be a text, not the number 5", "double quotes"),
    ("llm: [canary-pw]", "`llm` must be a mapping, not a list", "key: value"),
    ("llm: {models: {author: m}}", "there is no role `author`", "roles: default, triage"),
    ("embeddings: {dimensions: 0}", "`embeddings.dimensions` must be more than 0", ""),
    ("embeddings: {dimensions: true}", "`embeddings.dimensions` must be a whole number", "whole number"),
    ("agents: {targets: []}", "`agents.targets`", ""),
    ("agents: {targets: [codx]}", "`agents.targets.0` cannot be `codx`", "did you mean `codex`?"),
    ("build: ful", "`build` cannot be `ful`", "did you mean `full`?"),
    ("secrets: kering", "`secrets` cannot be `kering`", "did you mean `keyring`?"),
    ("databases: {shop: 5}", "`databases.shop` must be a mapping, not the number 5", ""),
    ("databases: {shop: {path: x}}", "`databases.shop.driver` is missing", "one of sqlite"),
    ("databases: {shop: {driver: sqlit}}", "`databases.shop.driver` is `sqlit`", "did you mean `sqlite`?"),
    ("databases: {shop: {driver: dbt}}", "`databases.shop.driver` is `dbt`", "one of sqlite"),
    ("sources: {shop: {driver: sqlite}}", "`sources.shop.driver` is `sqlite`", "one of dbt"),
    ("databases: {1: {driver: sqlite}}", "`databases.1` must be a text, not the number 1", "double quotes"),
    ("databases: {../x: {driver: sqlite, path: shop.sqlite}}", "is not a valid connection id", "an id begins with"),
    ("databases: {list: {driver: sqlite, path: shop.sqlite}}", "`connections.list`", "rename the connection"),
    (SQLITE.replace("}}", "}, SHOP: {driver: sqlite, path: y}}"), "differs only in case from", "choose another id"),
    (SQLITE + "sources: {shop: {driver: documents, path: .}}", "has the driver `sqlite`, not `documents`", ""),
    (f"databases: {{w: {{{POSTGRES}, password: [canary-pw]}}}}", "`connections.w.password` must be a text", "a text"),
    (f"databases: {{w: {{{POSTGRES}, password: *canary-pw}}}}", ":1:80: the alias **** has no anchor", "quote the"),
    (f"databases: {{w: {{{POSTGRES}, password: !canary-pw x}}}}", f":1:80: {TAG}", "quote the"),
    (f"databases: {{w: {{{POSTGRES}, password: 'canary-pw}}}}", ":1:92: found unexpected end", "correct line 1"),
    ("databases: !!python/object/apply:os.system [touch pwned]", TAG, "remove !***"),
    (BOMB, "the aliases expand to more than 100,000 nodes", "instead of nesting aliases"),
    ("a: " + "[" * 5000, "nested deeper than", "flatten"),
    ("llm: {backend: gateway, base_url: 'http://u:canary-pw@h'}", "contains a password", "without it"),
    (
        "embeddings: {backend: sentence-transformers, base_url: 'http://u:canary-pw@h'}",
        "contains a password",
        "without it",
    ),
]  # fmt: skip


@pytest.mark.table(("text", "says", "hint"), WRONG)
def test_what_is_no_answer(ktx: Run, shop: Path, text: str, says: str, hint: str) -> None:
    (shop.parent / "answers.yaml").write_text(text)
    answer = ktx("setup", "--answers", "answers.yaml", "--no-test", "--debug", "--json")
    assert answer.code == 2, answer
    assert says in answer.envelope["error"]["message"]
    assert hint in answer.envelope["error"]["hint"]
    assert "canary" not in answer.out + answer.err
    assert sorted(path.name for path in shop.parent.iterdir()) == ["answers.yaml", "shop.sqlite"]


@pytest.mark.parametrize(
    ("name", "says"), [("none.yaml", "none.yaml does not exist"), (".", "is a folder"), ("..", "is a folder")]
)
def test_where_no_file_is(ktx: Run, work: Path, name: str, says: str) -> None:
    answer = ktx("setup", "--answers", name, "--json")
    assert (answer.code, says in answer.envelope["error"]["message"]) == (2, True), answer
    assert list(work.iterdir()) == []


def test_a_path_out_of_the_project_is_opened_by_its_rules(ktx: Run, shop: Path) -> None:
    (shop.parent / "answers.yaml").write_text("databases: {shop: {driver: sqlite, path: ../../..}}")
    answer = ktx("setup", "--answers", "answers.yaml", "--json")
    assert (answer.code, "is a folder, not a SQLite database" in answer.envelope["error"]["message"]) == (4, True)
    hint = "set databases.shop.path in answers.yaml to PATH; then: ktx setup --answers answers.yaml"
    assert answer.envelope["error"]["hint"] == hint
    assert not (shop.parent / "ktx.yaml").exists()


def test_a_service_that_cannot_be_reached(ktx: Run, shop: Path) -> None:
    source = "{driver: jira, base_url: 'http://127.0.0.1:9', api_token: env:SHOP_TOKEN, projects: [DATA]}"
    (shop.parent / "answers.yaml").write_text(f"sources: {{j: {source}}}")
    answer = ktx("setup", "--answers", "answers.yaml", "--json", env={"SHOP_TOKEN": "tok-secret-value"})
    assert "cannot reach 127.0.0.1 (Jira) for GET /rest/api/2/myself" in answer.envelope["error"]["message"]
    hint = "check `sources.j.base_url` in `answers.yaml` and the network; then: ktx setup --answers answers.yaml"
    assert answer.envelope["error"]["hint"] == hint


def test_flags_and_a_file_do_not_mix(ktx: Run, shop: Path) -> None:
    (shop.parent / "answers.yaml").write_text(SQLITE)
    answer = ktx("setup", "--answers", "answers.yaml", "--llm-backend", "none", "--json")
    assert answer.code == 2
    assert "cannot be used together" in answer.envelope["error"]["message"]


ALL = """\
llm: {backend: anthropic, model: m, models: {curator: n}, api_key: canary-key, descriptions: none}
embeddings: {backend: openai, model: e, dimensions: 8, api_key: canary-vectors}
databases:
  shop: {driver: sqlite, path: shop.sqlite}
  pg: {driver: postgres, url: "postgresql://u:canary%20pw@127.0.0.1:1/d?sslmode=disable"}
sources:
  notes: {driver: documents, path: docs}
  bi: {driver: metabase, api_url: "http://127.0.0.1:1", api_key: canary-metabase, extra: {api_token: canary-extra}}
agents: {targets: [codex], scope: project}
"""
FLAGS = [
    ["--llm-backend", "anthropic", "--llm-role", "curator=n", "--llm-model", "m", "--llm-api-key", "canary-key"],
    ["--descriptions", "none"],
    [
        "--embeddings", "openai", "--embedding-model", "e", "--embedding-dimensions", "8",
        "--embedding-api-key", "canary-vectors",
    ],
    ["--database", "sqlite", "--database-path", "shop.sqlite", "--database-connection-id", "shop"],
    [
        "--database", "postgres", "--database-connection-id", "pg",
        "--database-url", "postgresql://u:canary%20pw@127.0.0.1:1/d?sslmode=disable",
    ],
    ["--source", "documents", "--source-dir", "docs", "--source-connection-id", "notes"],
    [
        "--source", "metabase", "--source-url", "http://127.0.0.1:1", "--source-token", "canary-metabase",
        "--source-connection-id", "bi", "--source-set", "extra.api_token=canary-extra",
    ],
    ["--agents", "codex", "--agents-scope", "project"],
]  # fmt: skip
"""The same, a slice a command."""


def test_all_at_once_and_slice_by_slice(ktx: Run, shop: Path, monkeypatch: pytest.MonkeyPatch, git: Git) -> None:
    said = ""
    for name in ("at-once", "by-slices"):
        (shop.parent / name / "docs").mkdir(parents=True)
    monkeypatch.chdir("at-once")
    Path("answers.yaml").write_text(ALL)
    plan = ktx("setup", "--answers", "answers.yaml", "--no-test", "--print-plan", "--debug")
    assert (plan.code, sorted(path.name for path in Path().iterdir())) == (0, ["answers.yaml", "docs"])
    done = ktx("setup", "--answers", "answers.yaml", "--no-test", "--debug", "--verbose")
    assert done.code == 0, done
    again = ktx("setup", "--answers", "answers.yaml", "--no-test", "--json", "--debug")
    assert again.data["changed"] is False
    said += plan.out + plan.err + done.out + done.err + again.out + again.err
    monkeypatch.chdir("../by-slices")
    for flags in FLAGS:
        done = ktx("setup", *flags, "--no-test", "--debug")
        assert done.code == 0, done
        said += done.out + done.err
    assert "canary" not in said
    for name in ("at-once", "by-slices"):
        folder = shop.parent / name
        assert "canary" not in git(folder, "log", "--all", "-p", "--format=%B")
        assert "canary" not in (folder / "ktx.yaml").read_text()
        secrets = {path.name: path.read_text() for path in (folder / ".ktx" / "secrets").iterdir()}
        assert sorted(secrets) == [
            "bi-api-key",
            "bi-api-token",
            "embeddings-api-key",
            "llm-anthropic-api-key",
            "pg-url",
        ]
        assert {path.stat().st_mode & 0o777 for path in (folder / ".ktx" / "secrets").iterdir()} == {0o600}
    assert (shop.parent / "at-once" / "ktx.yaml").read_bytes() == Path("ktx.yaml").read_bytes()


@pytest.mark.parametrize("step", ["llm", "embeddings", "databases", "sources", "build", "agents"])
def test_only_a_step(ktx: Run, shop: Path, step: str) -> None:
    (shop.parent / "docs").mkdir()
    (shop.parent / "answers.yaml").write_text(ALL + "build: none\n")
    assert ktx("setup", "--answers", "answers.yaml", "--only", step, "--no-test").code == 0
    made = yaml.load((shop.parent / "ktx.yaml").read_bytes(), where="")
    found = {
        "llm": made["llm"]["provider"]["backend"] != "none",
        "embeddings": "ingest" in made,
        "databases": "pg" in made.get("connections", {}),
        "sources": "bi" in made.get("connections", {}),
        "agents": (shop.parent / ".ktx" / "agents").exists(),
    }
    assert [each for each, is_there in found.items() if is_there] == ([] if step == "build" else [step])


def test_a_test_that_fails_saves_nothing(ktx: Run, shop: Path) -> None:
    (shop.parent / "answers.yaml").write_text(
        SQLITE.replace("}}", "}, pg: {driver: postgres, url: 'postgresql://u:canary-pw@127.0.0.1:1/d'}}")
    )
    answer = ktx("setup", "--answers", "answers.yaml", "--debug", "--json")
    assert (answer.code, answer.envelope["error"]["details"]["connection"]) == (4, "pg")
    assert "canary" not in answer.out + answer.err
    assert sorted(path.name for path in shop.parent.iterdir()) == ["answers.yaml", "shop.sqlite"]
