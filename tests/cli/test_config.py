from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml

Run = Callable[..., Any]


def test_show_has_defaults_and_masks_secrets(ktx: Run, project: Path) -> None:
    config = project / "ktx.yaml"
    config.write_text(config.read_text() + "  pg:\n    driver: postgres\n    host: h\n    password: canary-pw\n")
    answer = ktx("config", "show", "--json")
    assert "canary-pw" not in answer.out
    assert answer.data["llm"]["provider"]["backend"] == "none"
    assert "canary-pw" not in ktx("config", "get", "connections.pg.password").out


@pytest.mark.parametrize(
    ("key", "value", "printed"),
    [
        ("llm.provider.backend", "vertex", "vertex\n"),
        ("llm.models.curator", "opus", "opus\n"),
        ("storage.git.author", "Bot <bot@example.com>", "Bot <bot@example.com>\n"),
        ("connections.warehouse.include", "a.*,b", "- a.*\n- b\n"),
    ],
)
def test_set_then_get(ktx: Run, project: Path, key: str, value: str, printed: str) -> None:
    comment = "# keep me\n" + (project / "ktx.yaml").read_text()
    (project / "ktx.yaml").write_text(comment)
    assert ktx("config", "set", key, value, "--json").data["changed"] is True
    assert ktx("config", "get", key, "--plain").out == printed
    assert (project / "ktx.yaml").read_text().startswith("# keep me\n")
    assert ktx("config", "set", key, value, "--json").data["changed"] is False


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("llm.provider.backnd", "x", "llm.provider.backend"),
        ("llm.provider.backend", "gpt", "backend"),
        ("llm", "x", "block"),
        ("connections.none.path", "x", "none"),
        ("connections.warehouse.pth", "x", "path"),
        ("ingest.workUnits.stepBudget", "zero", "stepBudget"),
        ("", "x", ""),
    ],
)
def test_set_refuses(ktx: Run, project: Path, key: str, value: str, says: str) -> None:
    before = (project / "ktx.yaml").read_bytes()
    answer = ktx("config", "set", key, value, "--json")
    assert answer.code == 2, answer
    error = answer.envelope["error"]
    assert says in error["message"] + (error["hint"] or "")
    assert (project / "ktx.yaml").read_bytes() == before


def test_validate_names_line_and_problem(ktx: Run, work: Path) -> None:
    (work / "ktx.yaml").write_text("llm:\n  provider:\n    backend: nope\n")
    answer = ktx("config", "validate", "--json")
    assert answer.code == 2
    assert "ktx.yaml:3" in answer.envelope["error"]["message"]
    (work / "ktx.yaml").write_text("llm:\n  providr: {}\n")
    answer = ktx("config", "validate", "--json")
    assert answer.code == 0
    assert "provider" in str(answer.envelope["warnings"])


def test_schema_needs_no_project(ktx: Run, work: Path) -> None:
    schema = ktx("config", "schema", "--json").data
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert "connections" in schema["properties"]


@pytest.mark.parametrize(
    ("key", "value", "first"),
    [
        ("scan.relationships.acceptThreshold", "0.3", "scan.relationships.reviewThreshold"),
        ("scan.relationships.reviewThreshold", "0.8", "scan.relationships.acceptThreshold"),
    ],
)
def test_thresholds_that_would_pass_each_other_say_the_order(
    ktx: Run, project: Path, key: str, value: str, first: str
) -> None:
    answer = ktx("config", "set", key, value, "--json")
    hint = answer.envelope["error"]["hint"]
    assert (answer.code, hint) == (2, f"ktx config set {first} {value}; then: ktx config set {key} {value}")
    for command in hint.split("; then: "):
        assert ktx(*command.split()[1:]).code == 0
    assert ktx("config", "get", key, "--plain").out == f"{value}\n"


BLOCK = "storage.postgres"


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        (f"{BLOCK}.url", "env:DB", "{url: 'env:DB', schema: ktx_sales}"),
        (f"{BLOCK}.url", "postgresql://u:canary-pw@h/d", "{url: 'env:KTX_STATE_URL', schema: ktx_sales}"),
        (f"{BLOCK}.schema", "ktx_own", "{schema: ktx_own, url: 'env:KTX_STATE_URL'}"),
        (BLOCK, "x", "{url: 'env:KTX_STATE_URL', schema: ktx_sales}"),
    ],
)
def test_settings_that_require_each_other_are_set_by_the_command_in_the_hint(
    ktx: Run, project: Path, key: str, value: str, hint: str
) -> None:
    answer = ktx("config", "set", key, value, "--json")
    command = shlex.split(answer.envelope["error"]["hint"].partition(": ")[2])
    assert answer.code == 2 and command[:4] == ["ktx", "config", "set", BLOCK]
    assert yaml.load(command[4], where="hint") == yaml.load(hint, where="hint") and "canary-pw" not in answer.out
    assert ktx(*command[1:]).code == 0
    assert ktx("config", "get", f"{BLOCK}.schema", "--plain").out.startswith("ktx_")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ktx-sales", "must consist of at most"),
        ("9_sales", "must not begin with a digit"),
        ("x" * 58, "at most 57 letters"),
        ("public", "that only this project uses"),
        ("PG_catalog", "that only this project uses"),
        ("information_schema", "that only this project uses"),
        ("x" * 57, None),
        ("_Sales", None),
        ("publicity", None),
    ],
)
def test_the_schema_of_the_shared_state_is_for_one_project(
    ktx: Run, project: Path, name: str, says: str | None
) -> None:
    answer = ktx("config", "set", BLOCK, f"{{url: env:KTX_STATE_URL, schema: {name}}}", "--json")
    if says is None:
        assert answer.code == 0, answer.out
    else:
        error = answer.envelope["error"]
        assert answer.code == 2 and says in error["message"] and f"not the text `{name}`" in error["message"]
        assert error["hint"].endswith("ktx config set storage.postgres.schema ktx_sales")


@pytest.mark.parametrize("way", [0, 1])
@pytest.mark.parametrize("storage", ["{state: postgres}", "{state: postgres, search: postgres-hybrid}"])
def test_both_ways_out_of_a_shared_storage_without_a_database(
    ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch, storage: str, way: int
) -> None:
    """Projects of the TypeScript ktx may be like this."""
    monkeypatch.setenv("KTX_STATE_URL", "postgresql://ktx@db.example.com/ktx")
    config = project / "ktx.yaml"
    config.write_text(f"{config.read_text()}storage: {storage}\n")
    found = ktx("config", "validate", "--json")
    (warning,) = found.envelope["warnings"]
    assert found.code == 0 and "not set, so ktx keeps the state" in warning["message"]
    commands = re.findall(r"ktx (config set .*?)(?:; to |$)", warning["hint"])
    assert len(commands) == 2 and ktx(*shlex.split(commands[way])).code == 0, warning["hint"]
    assert ktx("config", "validate", "--json").envelope["warnings"] == []


def test_a_mapping_changes_only_the_settings_of_a_block_that_it_names(ktx: Run, project: Path) -> None:
    before = ktx("config", "get", "scan", "--json").data["value"]
    assert ktx("config", "set", "scan", "{privacy: strict, relationships: {enabled: false}}").code == 0
    after = ktx("config", "get", "scan", "--json").data["value"]
    before["privacy"], before["relationships"]["enabled"] = "strict", False
    assert after == before
    text = (project / "ktx.yaml").read_bytes()
    for wrong in ("{privacy: strict, privcy: x}", "{privacy: no-such}", "{relationships: x}"):
        assert ktx("config", "set", "scan", wrong).code == 2
    assert (project / "ktx.yaml").read_bytes() == text


UNSET = """\
# settings
scan:
  privacy: strict  # nobody may see values
  # what a scan infers
  relationships: {enabled: false}
storage:
  state: postgres
  postgres: {url: env:KTX_STATE_URL, schema: ktx_sales}
ingest:
  executor: postgres
search:
  no_such: [one, two]
"""


@pytest.mark.parametrize(
    ("key", "before", "after"),
    [
        ("scan.privacy", "  privacy: strict  # nobody may see values\n", ""),
        ("scan.relationships", "  relationships: {enabled: false}\n", ""),
        ("scan.relationships.enabled", "  relationships: {enabled: false}\n", ""),
        ("ingest.executor", "ingest:\n  executor: postgres\n", ""),
        ("ingest", "ingest:\n  executor: postgres\n", ""),
        ("search.no_such", "search:\n  no_such: [one, two]\n", ""),
        ("search.no_such.0", "[one, two]", "[two]"),
        ("semantic.layout", "", ""),
        ("scan.relationships.acceptThreshold", "", ""),
    ],
)
def test_unset_removes_a_setting_and_nothing_else(ktx: Run, project: Path, key: str, before: str, after: str) -> None:
    config = project / "ktx.yaml"
    config.write_text(UNSET)
    done = ktx("config", "unset", key, "--json")
    assert (done.code, done.data) == (0, {"key": key, "changed": before != after}), done.out
    assert config.read_text() == UNSET.replace(before, after, 1) if before else config.read_text() == UNSET
    if not key.startswith("search"):
        assert ktx("config", "unset", key, "--json").data["changed"] is False


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        ("# top\na: 1\nscan:\n  # why\n  privacy: strict # own\n# end\n", "scan.privacy",
         "# top\na: 1\n  # why\n# end\n"),
        (
            "llm:\n  provider:\n    backend: none\n    anthropic:\n      api_key: env:KEY\n",
            "llm.provider.anthropic.api_key",
            "llm:\n  provider:\n    backend: none\n",
        ),
        ("a: 1\nllm: {provider: {anthropic: {api_key: env:KEY}}}\nb: 2\n", "llm.provider.anthropic.api_key",
         "a: 1\nb: 2\n"),
        ("ingest: {}\nscan: {privacy: strict, views: always}\n", "scan.views", "ingest: {}\nscan: {privacy: strict}\n"),
        # a comment about the block stays, with the block
        ("a: 1\nscan: # ours\n  privacy: strict\n", "scan.privacy", "a: 1\nscan: {} # ours\n"),
        # without the block, no agent would be named, and embeddings for scans would be those of ingest
        ("serving: {agents: {bot: {limits: {queries_per_hour: 3}}}}\n", "serving.agents.bot.limits.queries_per_hour",
         "serving: {agents: {bot: {}}}\n"),
        ("scan: {enrichment: {embeddings: {backend: none}}}\n", "scan.enrichment.embeddings.backend",
         "scan: {enrichment: {embeddings: {}}}\n"),
        ("a: 1\nscan: {privacy: strict}\r\nb: 'x'  \n", "scan.privacy", "a: 1\nb: 'x'  \n"),
        # an emptied list is a value, not a block
        ("setup: {database_connection_ids: [warehouse]}\n", "setup.database_connection_ids.0",
         "setup: {database_connection_ids: []}\n"),
    ],
)  # fmt: skip
def test_unset_removes_the_blocks_that_it_empties(ktx: Run, project: Path, before: str, key: str, after: str) -> None:
    config = project / "ktx.yaml"
    config.write_bytes(before.encode())
    assert ktx("config", "unset", key, "--json").data["changed"] is True
    assert config.read_bytes().decode() == after


THRESHOLDS = "scan.relationships.acceptThreshold", "scan.relationships.reviewThreshold"


@pytest.mark.parametrize(
    ("key", "message", "hint"),
    [
        ("scan.privcy", "`scan.privcy` is not a setting in ktx.yaml", "did you mean `scan.privacy`?"),
        ("scan.privacy.strict", "`scan.privacy.strict` is not a setting in ktx.yaml",
         "run ktx config show for the settings in effect"),
        ("", "the key of the setting is empty", None),
        (".", "the key of the setting is empty", None),
        ("scan..privacy", "a name is missing after `scan.`", None),
        ("connections", "`connections` is the section with all connections, not a setting",
         "to remove a connection: ktx connection remove ID"),
        ("connections.warehouse", "`connections.warehouse` is a whole connection, not a setting",
         "to remove the connection: ktx connection remove warehouse"),
        ("connections.warehous", "there is no connection `warehous` in ktx.yaml", "did you mean `warehouse`?"),
        ("connections.warehouse.driver",
         "cannot remove `connections.warehouse.driver`: `connections.warehouse` requires it",
         "to remove the connection: ktx connection remove warehouse"),
        ("connections.warehouse.path",
         "cannot remove `connections.warehouse.path`: `connections.warehouse` needs `path` or `url`",
         "to remove the connection: ktx connection remove warehouse"),
        ("storage.postgres.schema", "cannot remove `storage.postgres.schema`: `storage.postgres` requires it",
         "to remove the whole block: ktx config unset storage.postgres"),
        (THRESHOLDS[0],
         f"cannot remove `{THRESHOLDS[0]}`: with its default, `{THRESHOLDS[0]}` is 0.6, less than the reviewThreshold "
         "of 0.9", f"ktx config unset {THRESHOLDS[1]}; then: ktx config unset {THRESHOLDS[0]}"),
    ],
)  # fmt: skip
def test_unset_refuses(ktx: Run, project: Path, key: str, message: str, hint: str | None) -> None:
    config = project / "ktx.yaml"
    thresholds = "{enabled: false, acceptThreshold: 0.95, reviewThreshold: 0.9}"
    config.write_text(
        config.read_text() + UNSET.replace("{enabled: false}", thresholds).replace("state: postgres", "state: sqlite")
    )
    before = config.read_bytes()
    answer = ktx("config", "unset", key, "--json")
    error = answer.envelope["error"]
    assert (answer.code, error["message"]) == (2, message), answer.out
    assert error["hint"] == hint if hint else error["hint"].startswith("known settings: ")
    assert config.read_bytes() == before
    for command in re.findall(r"ktx ((?:config unset|connection remove) (?!ID)[\w.]+)", error["hint"]):
        assert ktx(*command.split(), "--yes").code == 0, command


def test_unset_removes_what_makes_the_file_invalid(ktx: Run, project: Path) -> None:
    config = project / "ktx.yaml"
    before = config.read_text()
    config.write_text(before + "scan:\n  privacy: no-such\n  views: always\n")
    assert ktx("config", "validate").code == 2
    assert ktx("config", "unset", "scan.privacy").code == 0
    assert config.read_text() == before + "scan:\n  views: always\n" and ktx("config", "validate").code == 0


@pytest.mark.parametrize("way", [0, 1])
@pytest.mark.parametrize(
    "storage", ["", "storage: {state: sqlite, postgres: {url: env:KTX_STATE_URL, schema: ktx_sales}}\n"]
)
def test_both_ways_out_of_a_queue_without_a_shared_state(
    ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch, storage: str, way: int
) -> None:
    """Such as after a return to files."""
    monkeypatch.setenv("KTX_STATE_URL", "postgresql://ktx@db.example.com/ktx")
    config = project / "ktx.yaml"
    config.write_text(f"{config.read_text()}{storage}ingest: {{executor: postgres}}\n")
    found = ktx("config", "validate", "--json")
    (warning,) = found.envelope["warnings"]
    assert warning["message"].startswith("ingest.executor is `postgres` and needs the shared state, but storage.")
    worker = ktx("worker", "--json")
    assert worker.code == 2 and worker.envelope["error"]["hint"] == warning["hint"]
    commands = re.findall(r"ktx (config .*?)(?:; to |$)", warning["hint"])
    assert len(commands) == 2 and ktx(*shlex.split(commands[way])).code == 0, warning["hint"]
    assert ktx("config", "validate", "--json").envelope["warnings"] == []
