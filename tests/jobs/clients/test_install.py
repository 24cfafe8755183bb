"""Installing beside what people have, and taking it out: their files are byte for byte what they were."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError, KtxError, NotReadyError, StorageError, UsageError
from ktx_cli.jobs.clients import staging
from ktx_cli.jobs.clients.install import scope_of
from ktx_cli.jobs.clients.json_edit import parse
from ktx_cli.jobs.clients.listing import list_clients
from ktx_cli.jobs.clients.manifest import Address, attributes_in, is_ktx, load_manifest, words_of
from ktx_cli.jobs.clients.targets import CLIENTS, Scope, Target, Where, installed_program, skill_files
from ktx_cli.project.layout import Layout
from tests.jobs.clients.conftest import World

Write = Callable[[Path, str | bytes], bytes]
PLACES = [(target, scope) for target, client in CLIENTS.items() for scope in client.places]
SECRET = "sk-other-peoples-secret"

JSON = f"""\
{{
  // my servers
  "KEY": {{
    "github": {{
      "command": "gh", /* the tool */
      "env": {{"TOKEN": "{SECRET}"}},
    }}, // keep this
  }},
  "theme": "dark"
}}
"""
TOML = f"""\
model = "o" # the model

[mcp_servers.github] # mine
command = "gh"
env = {{TOKEN = "{SECRET}"}}
"""


def configured(world: World, target: Target, scope: Scope, write: Write) -> Path:
    """A client's configuration with comments and another server."""
    place = CLIENTS[target].places[scope]
    path = world.where().config(place)
    assert path is not None
    write(path, TOML if CLIENTS[target].toml else JSON.replace("KEY", place.container[0]))
    return path


def data(path: Path) -> Any:
    text = path.read_text("utf-8")
    if path.suffix == ".toml":
        return tomllib.loads(text)
    root = parse(text, str(path)).root
    assert root is not None
    return root.data


@pytest.mark.parametrize(("target", "scope"), PLACES)
def test_everything_else_is_kept_and_restored(world: World, write: Write, target: Target, scope: Scope) -> None:
    path = None if target is Target.UNIVERSAL else configured(world, target, scope, write)
    before = world.everything()
    report = world.install(target, scope=scope)
    assert report.error is None
    after = world.everything()
    if path is not None:
        key = CLIENTS[target].places[scope].container[0]
        new, old = data(path), TOML if path.suffix == ".toml" else JSON
        assert set(new[key]) == {"github", "ktx"}
        assert all(line in path.read_text() for line in old.replace("KEY", key).splitlines())
    assert {key: after[key] for key in before if path is None or not str(path).endswith(key)} == {
        key: value for key, value in before.items() if path is None or not str(path).endswith(key)
    }
    manifest = Layout(world.project()).agents_manifest
    assert SECRET.encode() not in manifest.read_bytes()
    assert SECRET not in json.dumps(report.to_json())
    assert world.uninstall().error is None
    assert world.everything() == before
    assert not manifest.exists()


@pytest.mark.parametrize(("target", "scope"), PLACES)
def test_what_ktx_made_goes_with_its_folders(world: World, target: Target, scope: Scope) -> None:
    before = world.everything()
    world.install(target, scope=scope)
    assert world.everything() != before
    world.uninstall(target, scope=scope)
    assert world.everything() == before


@pytest.mark.parametrize(("target", "scope"), PLACES)
def test_twice_is_once(world: World, target: Target, scope: Scope) -> None:
    world.install(target, scope=scope)
    manifest = Layout(world.project()).agents_manifest
    once, known = world.everything(), manifest.read_bytes()
    report = world.install(target, scope=scope)
    assert (report.error, list(report.diffs)) == (None, [])
    assert {each.action for each in report.outcomes} <= {"unchanged", "none"}
    assert (world.everything(), manifest.read_bytes()) == (once, known)


@pytest.mark.parametrize(("target", "scope"), PLACES)
def test_a_dry_run_writes_nothing_and_shows_no_secret(world: World, write: Write, target: Target, scope: Scope) -> None:
    if target is not Target.UNIVERSAL:
        configured(world, target, scope, write)
    before = world.everything()
    report = world.install(target, scope=scope, dry_run=True)
    assert world.everything() == before
    assert not (world.project() / ".ktx").exists()
    shown = "\n".join(line for diff in report.diffs for line in diff.lines)
    assert shown
    assert SECRET not in shown
    world.install(target, scope=scope)
    installed = world.everything()
    shown = "\n".join(line for diff in world.uninstall(dry_run=True).diffs for line in diff.lines)
    assert SECRET not in shown
    assert world.everything() == installed


def test_all_clients_at_once_and_one_after_the_other_out(world: World, write: Write) -> None:
    for target, scope in PLACES:
        if target is not Target.UNIVERSAL:
            configured(world, target, scope, write)
    before = world.everything()
    for scope in Scope:
        world.install(*(target for target, each in PLACES if each is scope), scope=scope)
    skill = world.project() / ".agents/skills/ktx-analytics/SKILL.md"
    for target, scope in PLACES:
        assert skill.exists() or target is Target.UNIVERSAL, "others count on it"
        assert world.uninstall(target, scope=scope).error is None
    assert world.everything() == before


def test_the_entries_of_every_client(world: World) -> None:
    shop = world.project()
    for scope in Scope:
        world.install(*(target for target, each in PLACES if each is scope), scope=scope)
    at = ["--project-dir", str(shop), "mcp", "stdio"]
    typed = {"type": "stdio", "command": str(world.ktx), "args": at}
    config = world.home / ".config"
    assert data(world.home / ".claude.json") == {"mcpServers": {"ktx": typed}}
    assert data(config / "Claude/claude_desktop_config.json") == {
        "mcpServers": {"ktx": {"command": str(world.ktx), "args": at}}
    }
    assert data(world.home / ".codex/config.toml") == {"mcp_servers": {"ktx": {"command": str(world.ktx), "args": at}}}
    assert data(world.home / ".cursor/mcp.json") == {"mcpServers": {"ktx": typed}}
    assert data(config / "opencode/opencode.json") == {
        "mcp": {"ktx": {"type": "local", "command": [str(world.ktx), *at]}}
    }
    assert data(config / "Code/User/mcp.json") == {"servers": {"ktx": typed}}
    plain = {"command": str(world.ktx), "args": at}
    assert data(world.home / ".gemini/settings.json") == {"mcpServers": {"ktx": plain}}
    assert data(world.home / ".copilot/mcp-config.json") == {"mcpServers": {"ktx": {**typed, "tools": ["*"]}}}
    assert data(config / "github-copilot/intellij/mcp.json") == {"servers": {"ktx": plain}}
    assert data(world.home / ".junie/mcp/mcp.json") == {"mcpServers": {"ktx": plain}}
    assert data(world.home / ".codeium/windsurf/mcp_config.json") == {"mcpServers": {"ktx": plain}}
    assert data(config / "zed/settings.json") == {"context_servers": {"ktx": plain}}
    open_folder = ["--project-dir", "${workspaceFolder}", "mcp", "stdio"]
    serve = ["mcp", "stdio"]
    assert data(shop / ".mcp.json")["mcpServers"]["ktx"] == {"type": "stdio", "command": "ktx", "args": serve}
    assert data(shop / ".codex/config.toml")["mcp_servers"]["ktx"] == {"command": "ktx", "args": serve}
    assert data(shop / ".cursor/mcp.json")["mcpServers"]["ktx"]["args"] == open_folder
    assert data(shop / ".vscode/mcp.json")["servers"]["ktx"]["args"] == open_folder
    assert data(shop / "opencode.json")["mcp"]["ktx"]["command"] == ["ktx", *serve]
    started = {"command": "ktx", "args": serve}
    assert data(shop / ".gemini/settings.json")["mcpServers"]["ktx"] == started
    assert data(shop / ".junie/mcp/mcp.json")["mcpServers"]["ktx"] == started
    assert data(shop / ".zed/settings.json")["context_servers"]["ktx"] == started
    assert data(shop / ".github/mcp.json")["mcpServers"]["ktx"] == {"type": "stdio", **started, "tools": ["*"]}


def test_an_entry_starts_its_server_with_attributes_until_others_are_asked_for(world: World) -> None:
    def words(target: Target) -> list[str]:
        entry = world.install(target).outcomes[0].entry
        return words_of(entry)[-6:]

    for target in (Target.CLAUDE_CODE, Target.CODEX, Target.OPENCODE):
        world.install(target, attributes=["region=EU", "level:=3"])
        assert words(target) == ["mcp", "stdio", "--user-attribute", "region=EU", "--user-attribute", "level:=3"]
        assert world.install(target).outcomes[0].action == "unchanged"
        assert world.install(target, attributes=["region=US"]).outcomes[0].action == "updated"
        assert words(target)[-2:] == ["--user-attribute", "region=US"]
        world.uninstall(target)
        assert "region" not in "".join(map(str, world.everything().values()))


def test_an_entry_keeps_its_profile_until_another_is_asked_for(world: World) -> None:
    def words(target: Target) -> list[str]:
        return words_of(world.install(target).outcomes[0].entry)

    for target in (Target.CLAUDE_CODE, Target.CODEX, Target.OPENCODE):
        assert words(target)[-2:] == ["mcp", "stdio"]
        assert world.install(target, profile="admin", attributes=["region=EU"]).outcomes[0].action == "updated"
        assert words(target)[-6:] == ["mcp", "stdio", "--profile", "admin", "--user-attribute", "region=EU"]
        assert world.install(target, attributes=[]).outcomes[0].action == "updated"
        assert words(target)[-4:] == ["mcp", "stdio", "--profile", "admin"]
        world.install(target, profile="default")
        assert words(target)[-2:] == ["mcp", "stdio"]


def test_an_entry_keeps_its_agent_until_another_is_asked_for(world: World) -> None:
    def words(target: Target) -> list[str]:
        return words_of(world.install(target).outcomes[0].entry)

    for target in (Target.CLAUDE_CODE, Target.CODEX):
        world.install(target, agent="desk", attributes=["a=b"])
        assert words(target)[-6:] == ["mcp", "stdio", "--agent", "desk", "--user-attribute", "a=b"]
        world.install(target, agent="")
        assert words(target)[-4:] == ["mcp", "stdio", "--user-attribute", "a=b"]


def test_an_entry_with_other_words_behind_it_is_not_ours() -> None:
    ours = ["--project-dir", "/p", "mcp", "stdio", "--user-attribute", "a=b"]
    assert is_ktx({"command": "ktx", "args": ours}) and attributes_in({"command": "ktx", "args": ours}) == ["a=b"]
    for args in ([*ours, "--more"], ["sql", "--user-attribute", "mcp", "stdio", "x"], ["--user-attribute", "mcp"], []):
        assert not is_ktx({"command": "ktx", "args": args})


def test_no_file_of_a_project_names_this_machine(world: World) -> None:
    world.install(*(target for target, scope in PLACES if scope is Scope.PROJECT and target is not Target.UNIVERSAL))
    for path in world.project().rglob("*"):
        if path.is_file() and ".ktx" not in path.parts:
            assert str(world.folder).encode() not in path.read_bytes(), path


def test_the_skills_of_each_client(world: World) -> None:
    world.install(Target.CLAUDE_CODE, Target.CURSOR, Target.CODEX)
    shop = world.project()
    for folder in (".claude/skills", ".agents/skills"):
        text = (shop / folder / "ktx-analytics/SKILL.md").read_text()
        assert text.startswith("---\nname: ktx-analytics\ndescription: ")
    rule = (shop / ".cursor/rules/ktx-admin.mdc").read_text()
    assert rule.startswith("---\ndescription: ")
    assert "\nalwaysApply: false\n---\n" in rule


# -- a server that is running ----------------------------------------------------------------------------------

URL = "https://ktx.example.com/mcp"


def test_a_token_is_only_ever_referred_to(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.environ["KTX_MCP_TOKEN"] = SECRET
    targets = [target for target, scope in PLACES if scope is Scope.PROJECT and CLIENTS[target].reference]
    assert len(targets) == 8
    world.install(*targets, address=Address.parse(URL, None))
    shop = world.project()
    bearer = {"Authorization": "Bearer ${KTX_MCP_TOKEN}"}
    elsewhere = {"Authorization": "Bearer ${env:KTX_MCP_TOKEN}"}
    assert data(shop / ".mcp.json")["mcpServers"]["ktx"] == {"type": "http", "url": URL, "headers": bearer}
    assert data(shop / ".cursor/mcp.json")["mcpServers"]["ktx"] == {"url": URL, "headers": elsewhere}
    assert data(shop / ".vscode/mcp.json")["servers"]["ktx"] == {"type": "http", "url": URL, "headers": elsewhere}
    assert data(shop / "opencode.json")["mcp"]["ktx"] == {
        "type": "remote", "url": URL, "headers": {"Authorization": "Bearer {env:KTX_MCP_TOKEN}"},
    }  # fmt: skip
    assert data(shop / ".codex/config.toml")["mcp_servers"]["ktx"] == {
        "url": URL, "bearer_token_env_var": "KTX_MCP_TOKEN",
    }  # fmt: skip
    assert data(shop / ".gemini/settings.json")["mcpServers"]["ktx"] == {"httpUrl": URL, "headers": bearer}
    assert data(shop / ".github/mcp.json")["mcpServers"]["ktx"] == {
        "type": "http", "url": URL, "headers": bearer, "tools": ["*"],
    }  # fmt: skip
    world.install(Target.WINDSURF, address=Address.parse(URL, None))
    assert data(world.home / ".codeium/windsurf/mcp_config.json")["mcpServers"]["ktx"] == {
        "serverUrl": URL, "headers": elsewhere,
    }  # fmt: skip
    assert all(SECRET.encode() not in content for content in world.everything().values())


@pytest.mark.parametrize("target", [Target.COPILOT_JETBRAINS, Target.JUNIE, Target.ZED])
def test_a_client_that_reads_no_variables_gets_no_token(world: World, target: Target) -> None:
    before = world.everything()
    with pytest.raises(UsageError, match="does not read variables in its configuration") as caught:
        world.install(target, address=Address.parse(URL, None))
    assert caught.value.hint
    assert world.everything() == before
    world.install(target, address=Address.parse("http://127.0.0.1:7878/mcp", None))
    path = world.where().config(next(iter(CLIENTS[target].places.values())))
    assert path is not None
    assert next(iter(data(path).values()))["ktx"] == {"url": "http://127.0.0.1:7878/mcp"}
    assert world.uninstall().error is None
    assert world.everything() == before


def test_a_server_of_this_machine_asks_for_no_token(world: World) -> None:
    for url in ("http://127.0.0.1:7878/mcp", "http://localhost:7878/mcp", "http://[::1]:7878/mcp"):
        world.install(Target.CLAUDE_CODE, address=Address.parse(url, None))
        entry = data(world.project() / ".mcp.json")["mcpServers"]["ktx"]
        assert entry == {"type": "http", "url": url}
    named = Address.parse("http://127.0.0.1:7878/mcp", "MY_TOKEN")
    world.install(Target.CODEX, address=named)
    entry = data(world.project() / ".codex/config.toml")["mcp_servers"]["ktx"]
    assert entry["bearer_token_env_var"] == "MY_TOKEN"


@pytest.mark.table(
    "url",
    ["", "ktx", "ftp://a/b", "http://", "http://[::1", "https://u:p@a/mcp", "https://a/mcp?token=x", "http://a /"],
)
def test_what_is_no_address_or_holds_a_secret_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        Address.parse(url, None)
    assert caught.value.hint
    assert "u:p" not in caught.value.message + (caught.value.hint or "")


def test_a_token_in_the_place_of_a_name_is_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        Address.parse(URL, "sk-abc")
    assert "sk-abc" not in f"{caught.value.message}{caught.value.hint}"


def test_claude_desktop_reaches_no_running_server(world: World) -> None:
    with pytest.raises(UsageError, match="starts servers itself"):
        world.install(Target.CLAUDE_DESKTOP, address=Address.parse(URL, None))


# -- names -----------------------------------------------------------------------------------------------------


def test_a_server_of_that_name_that_is_not_ours_is_never_touched(world: World, write: Write) -> None:
    path = world.project() / ".mcp.json"
    before = write(path, '{"mcpServers": {"ktx": {"command": "other"}}}')
    with pytest.raises(UsageError) as caught:
        world.install(Target.CLAUDE_CODE)
    assert "--name" in (caught.value.hint or "")
    assert path.read_bytes() == before
    assert not (world.project() / ".claude").exists()
    world.install(Target.CLAUDE_CODE, name="ktx-shop")
    assert set(data(path)["mcpServers"]) == {"ktx", "ktx-shop"}
    world.uninstall()
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["", "a b", "a.b", "-a", "x" * 65, "a\n"])
def test_a_name_no_client_takes(world: World, name: str) -> None:
    with pytest.raises(UsageError, match="--name accepts"):
        world.install(Target.CLAUDE_CODE, name=name)


@pytest.mark.parametrize("out", [("shop", "till"), ("till", "shop")])
@pytest.mark.parametrize("target", [Target.CLAUDE_CODE, Target.CODEX])
def test_two_projects_of_one_user(world: World, target: Target, out: tuple[str, str]) -> None:
    before = world.everything()
    world.install(target, scope=Scope.USER, project=world.project("shop"))
    world.install(target, scope=Scope.USER, project=world.project("till"))
    path = world.where().config(CLIENTS[target].places[Scope.USER])
    assert path is not None
    servers = next(iter(data(path).values()))
    assert {name: entry["args"][1] for name, entry in servers.items()} == {
        "ktx": str(world.folder / "shop"),
        "ktx-till": str(world.folder / "till"),
    }
    world.uninstall(project=world.folder / out[0])
    left = next(iter(data(path).values()))
    assert len(left) == 1
    skills = [each for each in world.everything() if each.endswith("ktx-analytics/SKILL.md")]
    assert len(skills) == 1, "the other project counts on them"
    world.uninstall(project=world.folder / out[1])
    after = {key: value for key, value in world.everything().items() if not key.startswith("till")}
    assert after == before


def test_three_projects_whose_folders_have_one_name(world: World) -> None:
    one, two, three = (world.project(f"{each}/Our Shop") for each in "abc")
    world.install(Target.CURSOR, scope=Scope.USER, project=one)
    world.install(Target.CURSOR, scope=Scope.USER, project=two)
    with pytest.raises(UsageError, match="already has a server `ktx-our-shop`"):
        world.install(Target.CURSOR, scope=Scope.USER, project=three)
    world.install(Target.CURSOR, scope=Scope.USER, project=three, name="third")
    assert set(data(world.home / ".cursor/mcp.json")["mcpServers"]) == {"ktx", "ktx-our-shop", "third"}


def test_another_name_replaces_the_first(world: World) -> None:
    before = world.everything()
    world.install(Target.CLAUDE_CODE)
    world.install(Target.CLAUDE_CODE, name="data")
    assert set(data(world.project() / ".mcp.json")["mcpServers"]) == {"data"}
    assert world.install(Target.CLAUDE_CODE).outcomes[0].name == "data"
    world.uninstall()
    assert world.everything() == before


# -- what happens in between -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("target", "scope"), [each for each in PLACES if each[0] is not Target.UNIVERSAL])
def test_edits_of_others_in_between_are_kept(world: World, write: Write, target: Target, scope: Scope) -> None:
    path = configured(world, target, scope, write)
    world.install(target, scope=scope)
    text = path.read_text()
    edited = text.replace('"gh"', '"gh2"') + ("\n[later]\nx = 1\n" if path.suffix == ".toml" else "// later\n")
    path.write_text(edited)
    world.uninstall()
    key = CLIENTS[target].places[scope].container[0]
    assert set(data(path)[key]) == {"github"}
    kept = [line for line in edited.splitlines() if line not in text.splitlines() and line]
    assert kept and all(line in path.read_text() for line in kept)
    original = (TOML if path.suffix == ".toml" else JSON.replace("KEY", key)).replace('"gh"', '"gh2"')
    assert path.read_text().startswith(original.removesuffix("}\n"))


def test_a_file_ktx_made_stays_when_others_put_something_in(world: World) -> None:
    world.install(Target.CLAUDE_CODE)
    path = world.project() / ".mcp.json"
    entry = data(path)["mcpServers"]["ktx"]
    path.write_text(json.dumps({"mcpServers": {"ktx": entry, "other": {"command": "x"}}}))
    world.uninstall()
    assert data(path) == {"mcpServers": {"other": {"command": "x"}}}


def test_a_file_ktx_made_goes_even_if_it_was_written_anew(world: World) -> None:
    world.install(Target.CLAUDE_CODE)
    path = world.project() / ".mcp.json"
    path.write_text(json.dumps(data(path)))
    world.uninstall()
    assert not path.exists()


def test_the_schema_that_opencode_adds_keeps_no_file(world: World) -> None:
    before = world.everything()
    world.install(Target.OPENCODE)
    path = world.project() / "opencode.json"
    path.write_text(path.read_text().replace("{", '{\n  "$schema": "https://opencode.ai/config.json",', 1))
    world.uninstall()
    assert world.everything() == before


def test_an_entry_somebody_changed_is_not_overwritten(world: World) -> None:
    world.install(Target.CLAUDE_CODE)
    path = world.project() / ".mcp.json"
    path.write_text(path.read_text().replace('"stdio",', '"stdio", "env": {"A": "b"},', 1))
    edited = path.read_bytes()
    report = world.install(Target.CLAUDE_CODE)
    assert (report.error, report.outcomes[0].action) == (None, "kept")
    report = world.install(Target.CLAUDE_CODE, address=Address.parse(URL, None))
    assert report.error is not None
    assert report.error.exit_code == 7
    assert path.read_bytes() == edited
    world.uninstall()
    assert not path.exists()


def test_an_entry_that_is_something_else_now_is_left_alone(world: World) -> None:
    world.install(Target.CLAUDE_CODE)
    path = world.project() / ".mcp.json"
    path.write_text('{"mcpServers": {"ktx": {"command": "other"}}}')
    report = world.uninstall()
    assert report.error is not None
    assert "differs from what ktx wrote" in report.error.message
    assert data(path) == {"mcpServers": {"ktx": {"command": "other"}}}


def test_a_skill_somebody_changed_is_left_alone_and_named(world: World) -> None:
    world.install(Target.CLAUDE_CODE)
    skill = world.project() / ".claude/skills/ktx-admin/SKILL.md"
    skill.write_text("mine now\n")
    report = world.install(Target.CLAUDE_CODE)
    assert report.error is not None and str(skill) in report.error.message
    report = world.uninstall()
    assert report.error is not None and str(skill) in report.error.message
    assert skill.read_text() == "mine now\n"
    assert not skill.parent.parent.joinpath("ktx-analytics").exists()
    skill.unlink()
    assert world.uninstall().error is None
    assert not (world.project() / ".claude").exists()


def test_an_older_skill_of_ktx_is_replaced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktx_cli.jobs.clients import install as installing
    from ktx_cli.jobs.clients import targets as skills

    skill = world.project() / ".claude/skills/ktx-admin/SKILL.md"
    with monkeypatch.context() as patch:
        patch.setattr(installing, "skill_files", lambda place, where: {skill: b"older\n"})
        world.install(Target.CLAUDE_CODE)
    assert skill.read_bytes() == b"older\n"
    assert world.install(Target.CLAUDE_CODE).error is None
    place = CLIENTS[Target.CLAUDE_CODE].places[Scope.PROJECT]
    assert skill.read_bytes() == skills.skill_files(place, world.where())[skill]


@pytest.mark.parametrize("scope", Scope)
def test_skills_of_another_manager_stay(world: World, write: Write, scope: Scope) -> None:
    """`npx skills add` installs the same skills from ktx's repository, and records them in its lock file."""
    place = CLIENTS[Target.CLAUDE_CODE].places[scope]
    (admin, content), *_ = [each for each in skill_files(place, world.where()).items() if "admin" in str(each[0])]
    write(admin, content)
    lock = world.project() / "skills-lock.json" if scope is Scope.PROJECT else world.home / ".agents/.skill-lock.json"
    write(lock, json.dumps({"version": 1, "skills": {"ktx-admin": {"source": "owner/repo"}}}))
    before = world.everything()
    assert world.install(Target.CLAUDE_CODE, scope=scope).error is None
    states = {(each.target, each.scope): each for each in list_clients(world.where())}
    assert (states[Target.CLAUDE_CODE, scope].state, states[Target.CLAUDE_CODE, scope].reasons) == ("installed", [])
    assert world.install(Target.CLAUDE_CODE, scope=scope).error is None
    assert world.uninstall().error is None
    assert world.everything() == before
    for broken in ("{", "[]", '{"skills": 1}'):
        lock.write_text(broken)
        assert world.install(Target.CLAUDE_CODE, scope=scope).error is None
        world.uninstall()
        write(admin, content)


def test_a_colleagues_clone(world: World) -> None:
    """The files of a project are committed; what was recorded is not."""
    world.install(Target.CLAUDE_CODE, Target.CURSOR)
    (world.project() / ".ktx/agents/manifest.json").unlink()
    report = world.install(Target.CLAUDE_CODE)
    assert (report.error, list(report.diffs)) == (None, [])
    world.uninstall(Target.CLAUDE_CODE)
    assert data(world.project() / ".mcp.json") == {"mcpServers": {}}
    assert world.uninstall(Target.CURSOR).error is None, "nobody recorded it here, it is named"
    assert data(world.project() / ".cursor/mcp.json") == {"mcpServers": {}}
    assert not list(world.project().rglob("SKILL.md")) + list(world.project().rglob("*.mdc"))


def test_nothing_is_installed(world: World) -> None:
    before = world.everything()
    assert world.uninstall().outcomes == []
    assert [each.action for each in world.uninstall(Target.CODEX, Target.UNIVERSAL).outcomes] == ["absent", "absent"]
    assert world.everything() == before


def test_a_project_that_moved(world: World) -> None:
    shop = world.project()
    world.install(Target.CURSOR, scope=Scope.USER, project=shop)
    moved = shop.rename(world.folder / "moved")
    assert world.install(Target.CURSOR, scope=Scope.USER, project=moved).outcomes[0].action == "updated"
    servers = data(world.home / ".cursor/mcp.json")["mcpServers"]
    assert [entry["args"][1] for entry in servers.values()] == [str(moved)]
    world.uninstall(project=moved)
    assert not (world.home / ".cursor").exists()


# -- files that are not as usual -------------------------------------------------------------------------------


def test_a_link_is_written_through(world: World, write: Write) -> None:
    real = world.folder / "dotfiles/claude.json"
    before = write(real, JSON.replace("KEY", "mcpServers"))
    link = world.home / ".claude.json"
    link.symlink_to(real)
    world.install(Target.CLAUDE_CODE, scope=Scope.USER)
    assert link.is_symlink()
    assert "ktx" in data(real)["mcpServers"]
    world.uninstall()
    assert link.is_symlink()
    assert real.read_bytes() == before


def test_a_link_out_of_the_project_is_refused(world: World, write: Write) -> None:
    before = write(world.home / ".claude.json", JSON.replace("KEY", "mcpServers"))
    (world.project() / ".mcp.json").symlink_to(world.home / ".claude.json")
    with pytest.raises(StorageError, match="points outside the project"):
        world.install(Target.CLAUDE_CODE, scope=Scope.PROJECT)
    assert (world.home / ".claude.json").read_bytes() == before


def test_a_link_that_leads_nowhere_is_refused(world: World) -> None:
    link = world.home / ".claude.json"
    link.symlink_to(world.folder / "gone.json")
    with pytest.raises(StorageError, match="which does not exist"):
        world.install(Target.CLAUDE_CODE, scope=Scope.USER)
    assert not (world.home / ".claude").exists()


@pytest.mark.parametrize("mode", [0o444, 0o400])
def test_a_read_only_file_is_refused_before_anything_is_written(world: World, write: Write, mode: int) -> None:
    path = configured(world, Target.CURSOR, Scope.PROJECT, write)
    path.chmod(mode)
    before = world.everything()
    with pytest.raises(StorageError, match="is read-only") as caught:
        world.install(Target.CLAUDE_CODE, Target.CURSOR)
    assert "chmod u+w" in (caught.value.hint or "")
    assert world.everything() == before
    assert not (world.project() / ".ktx").exists()


def test_permissions_stay(world: World, write: Write) -> None:
    path = configured(world, Target.CLAUDE_CODE, Scope.USER, write)
    path.chmod(0o600)
    world.install(Target.CLAUDE_CODE, scope=Scope.USER)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{\n  "mcpServers": {\n', "line 3"),
        (b"[]", "is not an object"),
        (b'{"mcpServers": 1}', "is not an object"),
        (b'{"mcpServers": {}, "mcpServers": {}}', "more than once"),
        ('{"a": "ä"}'.encode("utf-16"), "not UTF-8"),
        (b'{"a": "\xff"}', "not UTF-8"),
    ],
)
def test_a_broken_file_stops_everything(world: World, write: Write, content: bytes, problem: str) -> None:
    write(world.project() / ".cursor/mcp.json", content)
    before = world.everything()
    with pytest.raises(ConfigError, match=problem) as caught:
        world.install(Target.CLAUDE_CODE, Target.CURSOR)
    assert caught.value.hint
    assert world.everything() == before


def test_a_folder_in_the_place_of_a_file(world: World) -> None:
    (world.project() / ".mcp.json").mkdir()
    with pytest.raises(StorageError, match="is a folder"):
        world.install(Target.CLAUDE_CODE)


def test_the_layout_of_opencodes_second_version(world: World, write: Write) -> None:
    path = world.project() / "opencode.jsonc"
    before = write(
        path, '{\n  "mcp": {\n    "servers": {\n      "a": {"type": "local", "command": ["a"]},\n    },\n  },\n}\n'
    )
    world.install(Target.OPENCODE)
    assert set(data(path)["mcp"]["servers"]) == {"a", "ktx"}
    assert not (world.project() / "opencode.json").exists()
    world.uninstall()
    assert path.read_bytes() == before


def test_the_settings_of_zed_keep_their_comments(world: World, write: Write) -> None:
    path = world.home / ".config/zed/settings.json"
    text = '// Zed settings\r\n//\r\n// See the documentation.\r\n{\r\n    "vim_mode": true, // yes\r\n}\r\n'
    before = write(path, text)
    world.install(Target.ZED, scope=Scope.USER)
    assert path.read_bytes().startswith(before.removesuffix(b"}\r\n"))
    assert b"\n" not in path.read_bytes().replace(b"\r\n", b"")
    assert data(path)["context_servers"]["ktx"]["command"] == str(world.ktx)
    world.uninstall()
    assert path.read_bytes() == before


def test_a_file_changed_while_ktx_was_at_work(world: World, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = configured(world, Target.CURSOR, Scope.PROJECT, write)
    put = staging._put

    def slowly(target: Path, content: bytes | None) -> None:
        put(target, content)
        if target.name == ".mcp.json" and content is not None:
            path.write_text("{}")

    monkeypatch.setattr(staging, "_put", slowly)
    with pytest.raises(KtxError, match="another program has just changed") as caught:
        world.install(Target.CLAUDE_CODE, Target.CURSOR)
    assert caught.value.code == "conflict"
    assert path.read_text() == "{}"
    assert not (world.project() / ".mcp.json").exists()
    assert not (world.project() / ".claude").exists()
    assert load_manifest(Layout(world.project())).installs == []


def test_a_disk_that_is_full_half_way(world: World, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    configured(world, Target.CLAUDE_CODE, Scope.PROJECT, write)
    before, real = world.everything(), staging.write_atomic

    def full(path: Path, content: bytes) -> None:
        if path.name == "SKILL.md":
            raise StorageError(f"cannot write {path}: No space left on device")
        real(path, content)

    monkeypatch.setattr(staging, "write_atomic", full)
    with pytest.raises(StorageError, match="No space left"):
        world.install(Target.CLAUDE_CODE)
    assert world.everything() == before
    assert load_manifest(Layout(world.project())).installs == []


def test_killed_between_two_files(world: World, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not recorded could not be taken out, so it is recorded before it is there."""
    configured(world, Target.CLAUDE_CODE, Scope.PROJECT, write)
    before = world.everything()
    with monkeypatch.context() as patch:
        patch.setattr(staging.Staging, "apply", _first_file_only)
        patch.setattr("ktx_cli.jobs.clients.install.save_manifest", _save_once())
        with pytest.raises(SystemExit):
            world.install(Target.CLAUDE_CODE)
    assert world.everything() != before
    world.uninstall()
    assert world.everything() == before


def _first_file_only(self: staging.Staging) -> None:
    change = self.changes[0]
    staging._put(change.real, change.after)
    raise SystemExit


def _save_once() -> Any:
    from ktx_cli.jobs.clients.manifest import save_manifest

    saved: list[int] = []

    def save(layout: Layout, manifest: Any) -> None:
        if not saved:
            saved.append(1)
            save_manifest(layout, manifest)

    return save


# -- the machine -----------------------------------------------------------------------------------------------


def test_a_scope_the_client_does_not_have() -> None:
    with pytest.raises(UsageError) as caught:
        scope_of(Target.CLAUDE_DESKTOP, Scope.PROJECT)
    assert caught.value.hint == "use --scope user for claude-desktop"
    assert scope_of(Target.CLAUDE_DESKTOP, None) is Scope.USER
    assert scope_of(Target.CODEX, None) is Scope.PROJECT


def test_shared_files_need_ktx_on_path(world: World) -> None:
    world.environ["PATH"] = str(world.folder)
    report = world.install(Target.CLAUDE_CODE, Target.CODEX)
    assert [each.code for each in report.warnings] == ["not_on_path"]
    assert list(world.install(Target.CLAUDE_CODE, scope=Scope.USER).warnings) == []


def test_shared_files_need_ktx_outside_of_the_activated_environment(world: World) -> None:
    world.environ["VIRTUAL_ENV"] = str(world.bin)
    (warning,) = world.install(Target.CLAUDE_CODE).warnings
    assert f"only the activated environment {world.bin} has it" in warning.message
    lasting = world.folder / "lasting"
    lasting.mkdir()
    (lasting / "ktx").symlink_to(world.ktx)
    world.environ["PATH"] += f":{lasting}"
    assert list(world.install(Target.CLAUDE_CODE).warnings) == []


def test_a_client_that_hands_on_no_variables(world: World) -> None:
    variables = ("WAREHOUSE_URL", "API_KEY")
    report = world.install(Target.CLAUDE_DESKTOP, variables=variables)
    assert [each.code for each in report.warnings] == ["variables_unseen"]
    assert "API_KEY, WAREHOUSE_URL" in report.warnings[0].message
    world.install(Target.CODEX, variables=variables)
    entry = data(world.project() / ".codex/config.toml")["mcp_servers"]["ktx"]
    assert entry["env_vars"] == ["API_KEY", "WAREHOUSE_URL"]
    assert list(world.install(Target.GEMINI_CLI, Target.COPILOT_CLI, variables=variables).warnings) == []
    for name in (".gemini/settings.json", ".github/mcp.json"):
        env = data(world.project() / name)["mcpServers"]["ktx"]["env"]
        assert env == {"API_KEY": "${API_KEY}", "WAREHOUSE_URL": "${WAREHOUSE_URL}"}


def test_the_program_is_found_again_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shims = world.folder / "shims"
    shims.mkdir()
    (shims / "ktx").symlink_to(world.ktx)
    assert installed_program({"PATH": str(shims)}) == shims / "ktx"
    other = shims / "other"
    other.mkdir()
    (other / "ktx").write_text("")
    (other / "ktx").chmod(0o755)
    assert installed_program({"PATH": str(other)}) == world.ktx, "PATH has another ktx"
    world.ktx.unlink()
    with pytest.raises(NotReadyError, match="could not start it"):
        installed_program({"PATH": str(world.folder)})


@pytest.mark.table(
    ("platform", "environ", "desktop", "code", "codex"),
    [
        ("linux", {}, ".config/Claude", ".config/Code/User", ".codex"),
        ("darwin", {}, "Library/Application Support/Claude", "Library/Application Support/Code/User", ".codex"),
        ("win32", {"APPDATA": "/home/u/Roaming"}, "Roaming/Claude", "Roaming/Code/User", ".codex"),
        ("linux", {"XDG_CONFIG_HOME": "/home/u/cfg", "CODEX_HOME": "/home/u/cx"}, "cfg/Claude", "cfg/Code/User", "cx"),
    ],
)
def test_where_clients_look(platform: str, environ: dict[str, str], desktop: str, code: str, codex: str) -> None:
    where, home = Where(Path("/p"), {"HOME": "/home/u", **environ}, platform), Path("/home/u")

    def config(target: Target) -> Path | None:
        return where.config(CLIENTS[target].places[Scope.USER])

    assert config(Target.CLAUDE_DESKTOP) == home / desktop / "claude_desktop_config.json"
    assert config(Target.VSCODE) == home / code / "mcp.json"
    assert config(Target.CODEX) == home / codex / "config.toml"


@pytest.mark.table(
    ("platform", "environ", "jetbrains", "zed", "copilot", "gemini"),
    [
        ("linux", {}, ".config/github-copilot", ".config/zed", ".copilot", ".gemini"),
        ("darwin", {}, ".config/github-copilot", ".config/zed", ".copilot", ".gemini"),
        ("win32", {}, "AppData/Local/github-copilot", "AppData/Roaming/Zed", ".copilot", ".gemini"),
        (
            "win32",
            {"LOCALAPPDATA": "/home/u/Local", "APPDATA": "/home/u/Roaming"},
            "Local/github-copilot",
            "Roaming/Zed",
            ".copilot",
            ".gemini",
        ),
        (
            "linux",
            {"XDG_CONFIG_HOME": "/home/u/c", "COPILOT_HOME": "/home/u/cp", "GEMINI_CLI_HOME": "/home/u/g"},
            "c/github-copilot",
            "c/zed",
            "cp",
            "g/.gemini",
        ),
    ],
)
def test_where_later_clients_look(
    platform: str, environ: dict[str, str], jetbrains: str, zed: str, copilot: str, gemini: str
) -> None:
    where, home = Where(Path("/p"), {"HOME": "/home/u", **environ}, platform), Path("/home/u")
    found = {
        target: where.config(CLIENTS[target].places[Scope.USER])
        for target in (Target.COPILOT_JETBRAINS, Target.ZED, Target.COPILOT_CLI, Target.GEMINI_CLI)
    }
    assert found == {
        Target.COPILOT_JETBRAINS: home / jetbrains / "intellij/mcp.json",
        Target.ZED: home / zed / "settings.json",
        Target.COPILOT_CLI: home / copilot / "mcp-config.json",
        Target.GEMINI_CLI: home / gemini / "settings.json",
    }


def test_claude_code_and_copilot_in_one_project(world: World) -> None:
    """Copilot CLI reads the file of Claude Code as well, so their entries have one name in two files."""
    before = world.everything()
    assert world.install(Target.CLAUDE_CODE, Target.COPILOT_CLI).error is None
    assert [each.action for each in world.install(Target.COPILOT_CLI, Target.CLAUDE_CODE).outcomes] == ["unchanged"] * 2
    assert world.uninstall(Target.CLAUDE_CODE).error is None
    assert set(data(world.project() / ".github/mcp.json")["mcpServers"]) == {"ktx"}
    world.uninstall()
    assert world.everything() == before


def test_a_configuration_folder_of_claude_code(world: World) -> None:
    world.environ["CLAUDE_CONFIG_DIR"] = str(world.folder / "cc")
    world.install(Target.CLAUDE_CODE, scope=Scope.USER)
    assert sorted(each.name for each in (world.folder / "cc").iterdir()) == [".claude.json", "skills"]
    del world.environ["CLAUDE_CONFIG_DIR"]
    report = world.uninstall()
    assert report.error is not None and "now uses another file" in report.error.message
    world.environ["CLAUDE_CONFIG_DIR"] = str(world.folder / "cc")
    assert world.uninstall().error is None
    assert not (world.folder / "cc").exists()


def test_no_home(world: World) -> None:
    del world.environ["HOME"]
    with pytest.raises(NotReadyError, match="HOME"):
        world.install(Target.CURSOR, scope=Scope.USER)


def test_a_manifest_that_is_none_of_ours(world: World) -> None:
    path = Layout(world.project()).agents_manifest
    path.parent.mkdir(parents=True)
    path.write_text('{"version": 2}')
    with pytest.raises(StorageError, match="cannot read"):
        world.install(Target.CLAUDE_CODE)
    path.unlink()
    path.symlink_to(world.folder / "elsewhere.json")
    with pytest.raises(StorageError, match="symbolic link"):
        world.install(Target.CLAUDE_CODE)


def test_a_manifest_reaches_no_file_but_those_of_clients(world: World, write: Write) -> None:
    """A repository could bring one along that names any file of this user."""
    world.install(Target.CLAUDE_CODE)
    victim = world.home / "notes.json"
    before = write(victim, "{}")
    path = Layout(world.project()).agents_manifest
    path.write_text(path.read_text().replace('".mcp.json"', json.dumps(str(victim))))
    report = world.uninstall()
    assert report.error is not None and "now uses another file" in report.error.message
    assert victim.read_bytes() == before
    assert os.path.lexists(world.project() / ".mcp.json")


def _planted(world: World, install: dict[str, Any], *folders: Path) -> None:
    document = {"version": 1, "installs": [install], "folders": [str(each) for each in folders]}
    path = Layout(world.project()).agents_manifest
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("container", [["mcpServers"], []])
def test_a_planted_manifest_takes_no_entry_of_others_out(world: World, write: Write, container: list[str]) -> None:
    server = {"command": "npx", "args": ["-y", "github-server"]}
    file = world.home / ".claude.json"
    before = write(file, json.dumps({"mcpServers": {"github": server}, "github": server}))
    entry = {"path": str(file), "container": container, "name": "github", "value": server, "there": 0, "created": True}
    _planted(world, {"target": "claude-code", "scope": "user", "entry": entry})
    with pytest.raises(StorageError):
        world.uninstall()
    assert file.read_bytes() == before


def test_a_planted_manifest_takes_no_skill_and_no_folder_of_others(world: World, write: Write) -> None:
    skill = world.home / ".agents/skills/release/SKILL.md"
    content = write(skill, "how we release\n")
    empty = world.home / "inbox"
    empty.mkdir()
    install = {"target": "codex", "scope": "user", "skills": {str(skill): hashlib.sha256(content).hexdigest()}}
    _planted(world, install, empty)
    report = world.uninstall()
    assert report.error is not None and "it is not a ktx skill" in report.error.message
    assert skill.read_bytes() == content
    assert empty.is_dir()


@pytest.mark.parametrize("by", ["install", "uninstall"])
def test_what_a_killed_installation_left_goes_with_the_next_one(world: World, by: str) -> None:
    before = world.everything()
    world.install(Target.CLAUDE_CODE)
    skills = world.project() / ".claude/skills"
    left = [next(skills.glob("*/SKILL.md")).parent / ".SKILL.md.0badcafe.ktx-tmp", world.project() / ".mcp.json"]
    left[1] = left[1].with_name("..mcp.json.0badcafe.ktx-tmp")
    for each in left:
        each.write_text("half")
    if by == "install":
        world.install(Target.CLAUDE_CODE)
    else:
        world.uninstall()
        assert world.everything() == before
    assert not any(each.exists() for each in left)
