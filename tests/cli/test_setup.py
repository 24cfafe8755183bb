from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.setup.conftest import Ring

Run = Callable[..., Any]
Git = Callable[..., str]
SQLITE = ("--database", "sqlite", "--database-path", "shop.sqlite")


def test_from_nothing(ktx: Run, shop: Path, git: Git) -> None:
    answer = ktx("setup", "--no-input", *SQLITE, "--include", "o*", "--exclude", "*_tmp", "--json")
    assert answer.code == 0
    work = shop.parent
    data = answer.data
    assert (data["created_project"], data["created_repository"], data["tables"]) == (True, True, 1)
    assert (
        (work / "ktx.yaml")
        .read_text()
        .endswith(
            "connections:\n  warehouse:\n    driver: sqlite\n    path: shop.sqlite\n"
            '    include:\n      - o*\n    exclude:\n      - "*_tmp"\n'
        )
    )
    assert git(work, "show", "--name-only", "--format=%s", "HEAD").splitlines() == [
        "Set up ktx: connection warehouse",
        "",
        "ktx.yaml",
    ]
    assert (work / ".ktx" / ".gitignore").read_text() == "*\n"
    assert git(work, "status", "--porcelain", "--", "ktx.yaml", ".ktx") == ""


def test_again_changes_nothing(ktx: Run, project: Path, git: Git) -> None:
    tip = git(project, "rev-parse", "HEAD")
    answer = ktx("setup", *SQLITE, "--database-connection-id", "warehouse", "--json")
    assert answer.code == 0
    assert answer.data["changed"] is False
    assert git(project, "rev-parse", "HEAD") == tip


def test_flags_change_only_their_slice(ktx: Run, project: Path) -> None:
    config = project / "ktx.yaml"
    text = "# mine\n" + config.read_text().replace("path: shop.sqlite", "path: shop.sqlite  # the shop")
    config.write_text(text)
    assert ktx("setup", "--llm-backend", "claude-code", "--llm-model", "sonnet", "--no-test").code == 0
    changed = config.read_text()
    assert changed == text.replace("backend: none", "backend: claude-code\n  models:\n    default: sonnet")


def test_edits_of_the_user_are_saved_into_but_not_committed(ktx: Run, project: Path, git: Git) -> None:
    config = project / "ktx.yaml"
    config.write_text(config.read_text() + "# half-finished thought\n")
    tip = git(project, "rev-parse", "HEAD")
    answer = ktx("setup", "--llm-backend", "claude-code", "--no-test", "--json")
    assert answer.code == 0
    assert "config_not_committed" in [w["code"] for w in answer.envelope["warnings"]]
    assert git(project, "rev-parse", "HEAD") == tip
    assert "claude-code" in config.read_text()
    assert "half-finished" in config.read_text()


def test_the_hint_commits_a_file_that_git_does_not_know_and_nothing_else(ktx: Run, shop: Path, git: Git) -> None:
    git(shop.parent, "init", "-q")
    git(shop.parent, "config", "user.name", "User")
    git(shop.parent, "config", "user.email", "user@example.com")
    (shop.parent / "ktx.yaml").write_text("# by hand\n")
    (shop.parent / "mine.txt").write_text("staged, not finished")
    git(shop.parent, "add", "mine.txt")
    answer = ktx("setup", "--no-input", *SQLITE, "--json")
    warning = next(each for each in answer.envelope["warnings"] if each["code"] == "config_not_committed")
    done = subprocess.run(warning["hint"], shell=True, cwd=shop.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert git(shop.parent, "show", "--format=", "--name-only", "HEAD").split() == ["ktx.yaml"]


def test_a_query_history_that_cannot_be_read_is_warned_of_at_once(ktx: Run, shop: Path) -> None:
    plain = ktx("setup", "--no-input", *SQLITE, "--json")
    assert plain.envelope["warnings"] == []
    asked = ktx("setup", "--no-input", *SQLITE, "--query-history", "--json")
    (warning,) = asked.envelope["warnings"]
    assert (asked.code, warning["code"]) == (0, "query_history")
    (found,) = ktx("doctor", "--only", "history", "--json").data["findings"]
    assert found["level"] == "fail" and found["message"].startswith(warning["message"])


@pytest.mark.parametrize(
    ("flags", "code", "says"),
    [
        (("--only", "llm", *SQLITE), 2, "a flag answers the step databases, which --only skips"),
        (("--database", "sqlite", "--database-path", "none.sqlite"), 4, "none.sqlite"),
        (("--database", "sqlit", "--database-path", "shop.sqlite"), 2, "sqlit"),
        (("--database-path", "shop.sqlite"), 2, "--database"),
        ((*SQLITE, "--database-connection-id", "../evil"), 2, "../evil"),
        ((*SQLITE, "--database-connection-id", "list"), 2, "list"),
        (("--llm-backend", "gpt"), 2, "gpt"),
        (("--database", "postgres", "--database-url", "env:NOT_SET_ANYWHERE"), 2, "NOT_SET_ANYWHERE"),
        (("--database", "snowflake"), 2, "`account`"),
    ],
)
def test_a_wrong_answer_leaves_nothing_behind(ktx: Run, shop: Path, flags: Any, code: int, says: str) -> None:
    answer = ktx("setup", "--no-input", *flags, "--json")
    assert answer.code == code, answer
    assert says in answer.envelope["error"]["message"]
    assert answer.envelope["error"]["hint"]
    assert [path.name for path in shop.parent.iterdir()] == ["shop.sqlite"]


def test_in_a_subfolder_it_finds_the_project_above(ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "deep").mkdir()
    monkeypatch.chdir(project / "deep")
    assert ktx("setup", "--json").data["project_dir"] == str(project)


def test_a_secret_in_the_url_is_kept_apart(ktx: Run, work: Path, git: Git) -> None:
    url = "postgresql://u:canary-pw@127.0.0.1:1/x"
    flags = ("--database", "postgres", "--database-url", url, "--no-test", "--json")
    answer = ktx("setup", *flags)
    assert answer.code == 0
    assert "canary-pw" not in answer.out + answer.err
    assert "url: file:.ktx/secrets/warehouse-url" in (work / "ktx.yaml").read_text()
    kept = work / ".ktx" / "secrets" / "warehouse-url"
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == (url + "\n", 0o600)
    assert "canary-pw" not in git(work, "log", "--all", "-p", "--format=%H")
    assert ktx("setup", *flags).data["changed"] is False
    assert list(kept.parent.iterdir()) == [kept]


def test_a_secret_in_the_keyring(ktx: Run, work: Path) -> None:
    import keyring

    before, ring = keyring.get_keyring(), Ring()
    keyring.set_keyring(ring)
    url = "postgresql://u:canary-pw@127.0.0.1:1/x"
    flags = ("--database", "postgres", "--database-url", url, "--keep-secrets", "keyring", "--no-test", "--json")
    try:
        first, again = ktx("setup", *flags), ktx("setup", *flags)
    finally:
        keyring.set_keyring(before)
    assert (first.code, again.code, again.data["changed"], again.data["connection"]) == (0, 0, False, "warehouse")
    assert list(ring.kept.values()) == [url]
    assert "url: keyring:ktx-" in (work / "ktx.yaml").read_text()
    assert "canary" not in first.out + first.err + again.out + again.err
    assert not (work / ".ktx" / "secrets").exists()


def test_the_same_flags_again_change_nothing(ktx: Run, project: Path) -> None:
    before = (project / "ktx.yaml").read_bytes()
    answer = ktx("setup", "--no-input", *SQLITE, "--json")
    assert answer.code == 0
    assert answer.data["connection"] == "warehouse"
    assert (project / "ktx.yaml").read_bytes() == before


def test_a_secret_that_stands_in_the_file_is_never_committed(ktx: Run, project: Path, git: Git) -> None:
    config = project / "ktx.yaml"
    config.write_text(
        config.read_text() + "  other: {driver: postgres, url: 'postgresql://u:canary-pw@127.0.0.1:1/x'}\n"
    )
    answer = ktx("setup", "--llm-backend", "claude-code", "--no-test", "--json")
    assert answer.code == 0
    assert "config_not_committed" in [w["code"] for w in answer.envelope["warnings"]]
    assert "canary-pw" not in answer.out + git(project, "log", "--all", "-p", "--format=%H")


def test_a_wrong_answer_leaves_no_folder_behind(ktx: Run, work: Path) -> None:
    answer = ktx("setup", "--project-dir", "new", "--database", "sqlite", "--database-path", "none.sqlite")
    assert answer.code == 4
    assert not (work / "new").exists()


def test_a_vertex_project_by_flags(ktx: Run, work: Path) -> None:
    args = ["setup", "--llm-backend", "vertex", "--llm-model", "m", "--llm-project", "p"]
    answer = ktx(*args, "--json")
    args += ["--llm-location", "europe-west1"]
    assert (answer.code, answer.envelope["error"]["hint"]) == (2, " ".join(["ktx", *args]))
    assert ktx(*args, "--llm-api-key", "env:TOKEN", "--no-test").code == 0
    text = (work / "ktx.yaml").read_text()
    for line in ("project: p", "location: europe-west1", "access_token: env:TOKEN"):
        assert f"      {line}\n" in text


@pytest.mark.parametrize(
    ("flags", "message", "hint"),
    [
        (("--llm-backend", "claude"), "cannot be `claude`", "ktx setup --llm-backend claude-code"),
        (
            ("--llm-backend", "claude-code", "--llm-api-key", "env:X"),
            "does not accept --llm-api-key",
            "requires --llm-backend",
        ),
        (("--llm-backend", "gateway", "--llm-location", "x"), "does not accept --llm-location", "--llm-backend vertex"),
        (("--llm-project", "x"), "the backend `none` does not accept --llm-project", "--llm-backend vertex"),
        (("--llm-model", ""), "`--llm-model` is empty", "--llm-model VALUE"),
        (
            ("--llm-backend", "anthropic", "--llm-api-key", "canary-key"),
            "requires `llm.models.default`",
            "ktx setup --llm-backend anthropic --llm-api-key env:NAME --llm-model MODEL",
        ),
    ],
)
def test_wrong_model_flags(ktx: Run, work: Path, flags: tuple[str, ...], message: str, hint: str) -> None:
    answer = ktx("setup", *flags, "--json")
    assert answer.code == 2, answer
    assert message in answer.envelope["error"]["message"]
    assert hint in answer.envelope["error"]["hint"]
    assert list(work.iterdir()) == []


def test_a_key_in_clear_is_kept_apart(ktx: Run, work: Path) -> None:
    flags = ("--llm-backend", "anthropic", "--llm-model", "m", "--llm-api-key", "canary-key")
    answer = ktx("setup", *flags, "--no-test", "--json")
    assert answer.code == 0
    assert "canary-key" not in answer.out + (work / "ktx.yaml").read_text()
    assert (work / ".ktx" / "secrets" / "llm-anthropic-api-key").read_text() == "canary-key\n"


@pytest.mark.parametrize("no_test", [(), ("--no-test",)])
def test_a_backend_that_the_default_model_goes_around_is_refused(ktx: Run, project: Path, no_test: Any) -> None:
    config = project / "ktx.yaml"
    config.write_text(
        config.read_text().replace("backend: none", "backend: none\n  models:\n    default: gateway:gpt-5.4")
    )
    before = config.read_bytes()
    answer = ktx("setup", "--llm-backend", "claude-code", *no_test, "--json")
    assert (answer.code, config.read_bytes()) == (2, before)
    error = answer.envelope["error"]
    assert error["message"] == "`llm.models.default` is `gateway:gpt-5.4`, which goes to `gateway`"
    assert error["hint"] == " ".join(["ktx setup --llm-backend claude-code --llm-model MODEL", *no_test])
    assert ktx("setup", "--llm-backend", "claude-code", "--llm-model", "haiku", "--no-test").code == 0
    answer = ktx("setup", "--llm-backend", "none", "--llm-model", "gateway:x", "--no-test", "--json")
    assert answer.envelope["error"]["hint"].startswith("remove llm.models.default from ktx.yaml")


def test_a_role_that_goes_elsewhere_is_warned_about(ktx: Run, project: Path) -> None:
    config = project / "ktx.yaml"
    config.write_text(config.read_text().replace("backend: none", "backend: none\n  models:\n    triage: gateway:x"))
    answer = ktx("setup", "--llm-backend", "claude-code", "--no-test", "--json")
    (warning,) = [w for w in answer.envelope["warnings"] if w["code"] == "role_on_other_backend"]
    assert warning["message"] == "`llm.models.triage` is `gateway:x`, which goes to `gateway`, not to `claude-code`"
    assert warning["hint"] == "ktx config set llm.models.triage MODEL"


def test_help_names_the_backends_there_are(ktx: Run) -> None:
    from ktx_cli.cli.setup_flags import BACKENDS
    from ktx_cli.project.config.blocks import SUPPORTED_BACKENDS

    assert BACKENDS.replace(" or ", ", ").split(", ") == ["none", *SUPPORTED_BACKENDS]
    model = ktx("setup", "--help").out.partition("Embeddings:")[0]
    assert "--llm-backend" in model and "codex" in model


def test_next_is_ingest_where_there_is_something_to_read(ktx: Run, project: Path) -> None:
    said = ktx("setup", "--no-input", "--llm-backend", "none").err
    assert "next: ktx ingest" in said and "--database" not in said


def test_nothing_is_asked_with_json_even_in_a_terminal(ktx: Run, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asks(*args: Any) -> None:
        raise AssertionError("the wizard began")

    monkeypatch.setattr("ktx_cli.cli.prompts.open_prompter", asks)
    monkeypatch.setattr("typer.testing._NamedTextIOWrapper.isatty", lambda self: True)
    monkeypatch.delenv("CI", raising=False)
    assert ktx("setup", "--json").code == 0
    assert ktx("setup", "--no-input").code == 0
    assert ktx("setup", "--llm-backend", "none").code == 0
    assert ktx("setup", "--print-plan").code == 0
    with monkeypatch.context() as patch:
        patch.setenv("CI", "true")
        assert ktx("setup").code == 0
    assert ktx("setup").code == 1, "in a terminal and without flags it asks"


QUESTIONS = {
    "databases": {
        "which": "--database", "driver": "--database", "id": "--database-connection-id", "address": "--database-url",
        "scope": "--include", "schemas": "--include", "include": "--include", "history": "--query-history",
    },
    "wizard": {
        "make": "--project-dir", "backend": "--llm-backend --embeddings", "models": "--llm-model",
        "model": "--llm-model --embedding-model", "descriptions": "--descriptions", "api-key": "--embedding-api-key",
        "base-url": "--embedding-base-url", "build": "--build", "targets": "--agents",
    },
    "dialog": {"change": "--llm-backend --only"},
}  # fmt: skip
"""The flags for each question that the wizard's source asks by a name of its own, by module."""


def test_every_question_has_a_visible_flag(ktx: Run) -> None:
    import ast
    from importlib.resources import files

    from ktx_cli.jobs.setup.answers import questions_of
    from ktx_cli.llm.registry import backend_kinds
    from ktx_cli.project.config.connections import drivers
    from ktx_cli.project.plugins import WAREHOUSES

    said = ktx("setup", "--help").out + ktx("--help").out
    asked: dict[str, set[str]] = {}
    for path in files("ktx_cli.jobs.setup.wizard").iterdir():
        if not path.name.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                is_question = node.func.attr in ("select", "several", "text", "secret", "confirm")
                if is_question and "dialog" in ast.unparse(node.func.value) and isinstance(node.args[0], ast.Constant):
                    asked.setdefault(path.name.removesuffix(".py"), set()).add(node.args[0].value)
    for module, keys in asked.items():
        assert keys <= set(QUESTIONS[module]), f"{module}: which flag answers these?"
    flags = {flag for keys in QUESTIONS.values() for flag in " ".join(keys.values()).split()} | {
        "--source",
        "--source-connection-id",
    }
    for driver in drivers():
        prefix = "database" if driver in WAREHOUSES.built_in else "source"
        flags |= {f"--{prefix}-{question.word}" for question in questions_of(driver)}
    flags |= {f"--llm-{each.field.replace('_', '-')}" for kind in backend_kinds() for each in kind.questions}
    assert [
        flag for flag in sorted(flags | {"--llm-role"}) if f"  {flag} " not in said and f"{flag}/" not in said
    ] == []


def test_a_home_folder_becomes_no_project_unless_that_is_meant(
    ktx: Run, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(work))
    answer = ktx("setup", "--no-input", "--json")
    assert (answer.code, list(work.iterdir())) == (2, [])
    assert "home folder" in answer.envelope["error"]["message"]
    assert ktx("setup", "--no-input", "--project-dir", ".").code == 0
    assert ktx("setup", "--no-input").code == 0
