"""`--install-dir`: the project's files in the folder of an application, found again by list and uninstall."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import StorageError, UsageError
from ktx_cli.jobs.clients.install import InstallReport, Wanted, install, uninstall
from ktx_cli.jobs.clients.json_edit import parse
from ktx_cli.jobs.clients.listing import ClientState, list_clients
from ktx_cli.jobs.clients.manifest import load_manifest
from ktx_cli.jobs.clients.targets import CLIENTS, Scope, Target, Where
from ktx_cli.project.layout import Layout
from tests.jobs.clients.conftest import Files, World, tree

IN_PROJECT = [target for target, client in CLIENTS.items() if Scope.PROJECT in client.places]
THEIRS = '{\n  // ours\n  "KEY": {"github": {"command": "gh"}},\n}\n'


@pytest.fixture
def app(world: World) -> Path:
    path = world.folder / "app"
    path.mkdir()
    (path / "main.py").write_text("print()\n")
    return path


def at(world: World, folder: Path | None, project: Path | None = None) -> Where:
    return Where(project or world.project(), world.environ, "linux", folder)


def put(world: World, folder: Path, *targets: Target, project: Path | None = None, **wanted: Any) -> InstallReport:
    return install(Wanted(targets, **wanted), at(world, folder, project))


def take(
    world: World, *targets: Target, folder: Path | None = None, project: Path | None = None, dry_run: bool = False
) -> InstallReport:
    return uninstall(at(world, folder, project), targets, None, dry_run=dry_run)


def everything(world: World, *folders: Path) -> Files:
    return {**world.everything(), **tree(*folders)}


def servers(path: Path) -> dict[str, Any]:
    root = parse(path.read_text("utf-8"), str(path)).root
    assert root is not None
    found: dict[str, Any] = next(iter(root.data.values()))
    return found


def elsewhere(world: World) -> list[ClientState]:
    return [each for each in list_clients(at(world, None)) if each.install_dir is not None]


@pytest.mark.parametrize("target", IN_PROJECT)
def test_the_files_of_every_client_go_there_and_out_again(world: World, app: Path, target: Target) -> None:
    path = at(world, app).config(CLIENTS[target].places[Scope.PROJECT])
    if path is not None and not CLIENTS[target].toml:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(THEIRS.replace("KEY", CLIENTS[target].places[Scope.PROJECT].container[0]))
    before = everything(world, app)
    report = put(world, app, target)
    assert (report.error, report.outcomes[0].path, report.outcomes[0].install_dir) == (None, path, str(app))
    after = everything(world, app)
    assert all(key.startswith("app/") for key in after if key not in before)
    assert list(put(world, app, target).diffs) == []
    (state,) = elsewhere(world)
    assert (state.target, state.scope, state.state) == (target, Scope.PROJECT, "installed")
    take(world, dry_run=True)
    assert everything(world, app) == after
    assert take(world).error is None
    assert everything(world, app) == before
    assert not Layout(world.project()).agents_manifest.exists()


def test_the_server_is_started_for_this_project(world: World, app: Path) -> None:
    put(world, app, Target.CLAUDE_CODE, Target.CURSOR, Target.ZED, Target.OPENCODE)
    words = [str(world.ktx), "--project-dir", str(world.project()), "mcp", "stdio"]
    for name in (".mcp.json", ".cursor/mcp.json", ".zed/settings.json"):
        entry = servers(app / name)["ktx"]
        assert [entry["command"], *entry["args"]] == words
    assert servers(app / "opencode.json")["ktx"]["command"] == words
    assert (app / ".claude/skills/ktx-analytics/SKILL.md").is_file()
    assert not (world.project() / ".mcp.json").exists()


def test_the_project_itself_and_several_folders(world: World, app: Path) -> None:
    other = world.folder / "other"
    other.mkdir()
    before = everything(world, app, other)
    world.install(Target.CLAUDE_CODE)
    put(world, app, Target.CLAUDE_CODE)
    put(world, other, Target.CLAUDE_CODE, Target.CURSOR)
    assert [(each.target, each.install_dir) for each in elsewhere(world)] == [
        (Target.CLAUDE_CODE, str(app)),
        (Target.CLAUDE_CODE, str(other)),
        (Target.CURSOR, str(other)),
    ]
    assert len(take(world, folder=other).outcomes) == 2
    assert tree(other) == {key: value for key, value in before.items() if key.startswith("other/")}
    assert set(servers(app / ".mcp.json")) == set(servers(world.project() / ".mcp.json")) == {"ktx"}
    assert [each.install_dir for each in take(world, Target.CLAUDE_CODE).outcomes] == [None, str(app)]
    assert everything(world, app, other) == before


@pytest.mark.parametrize("first_out", ["shop", "till"])
def test_two_projects_in_one_folder(world: World, app: Path, first_out: str) -> None:
    shop, till = world.project("shop"), world.project("till")
    before = everything(world, app)
    put(world, app, Target.CLAUDE_CODE, project=shop)
    put(world, app, Target.CLAUDE_CODE, project=till)
    assert set(servers(app / ".mcp.json")) == {"ktx", "ktx-till"}
    take(world, project=world.folder / first_out)
    assert len(servers(app / ".mcp.json")) == 1
    assert (app / ".claude/skills/ktx-admin/SKILL.md").is_file(), "the other project uses it"
    take(world, project=till if first_out == "shop" else shop)
    assert everything(world, app) == before


@pytest.mark.parametrize("first_out", ["app", "shop"])
def test_a_folder_that_is_a_project_itself(world: World, first_out: str) -> None:
    shop, app = world.project("shop"), world.project("app")
    before = world.everything()
    world.install(Target.CLAUDE_CODE, project=app)
    put(world, app, Target.CLAUDE_CODE, project=shop)
    assert set(servers(app / ".mcp.json")) == {"ktx", "ktx-shop"}
    assert servers(app / ".mcp.json")["ktx"]["args"] == ["mcp", "stdio"]
    take(world, project=world.folder / first_out)
    assert len(servers(app / ".mcp.json")) == 1
    assert (app / ".claude/skills/ktx-admin/SKILL.md").is_file(), "the other project uses it"
    take(world, project=app if first_out == "shop" else shop)
    assert world.everything() == before


def test_what_it_needs(world: World, app: Path) -> None:
    with pytest.raises(UsageError, match="but --scope user writes to your own settings"):
        put(world, app, Target.CLAUDE_CODE, scope=Scope.USER)
    with pytest.raises(UsageError, match="is not a folder") as caught:
        put(world, app / "main.py", Target.CLAUDE_CODE)
    assert caught.value.hint == "pass the folder in which the agent works"
    with pytest.raises(UsageError, match="does not exist") as caught:
        put(world, app / "new", Target.CLAUDE_CODE)
    assert caught.value.hint == f"mkdir -p {app / 'new'}"
    with pytest.raises(UsageError) as caught:
        put(world, app, Target.WINDSURF)
    assert caught.value.hint == "use --scope user for windsurf"
    assert not (world.project() / ".ktx").exists()


def test_a_link_out_of_the_folder_is_refused(world: World, app: Path) -> None:
    (world.home / ".claude.json").write_text("{}")
    (app / ".mcp.json").symlink_to(world.home / ".claude.json")
    with pytest.raises(StorageError, match=f"points outside {app}"):
        put(world, app, Target.CLAUDE_CODE)
    assert (world.home / ".claude.json").read_text() == "{}"


def test_the_folder_is_gone(world: World, app: Path) -> None:
    put(world, app, Target.CLAUDE_CODE)
    app.rename(world.folder / "moved")
    (state,) = elsewhere(world)
    assert (state.state, state.reasons[0]) == ("changed", "`ktx` is no longer in the file")
    assert take(world).error is None
    assert load_manifest(Layout(world.project())).installs == []


@pytest.mark.parametrize("folder", ["app", "../app"])
def test_a_planted_folder_is_absolute_and_of_a_project(world: World, folder: str) -> None:
    path = Layout(world.project()).agents_manifest
    path.parent.mkdir(parents=True)
    for install_dir, scope in ((folder, "project"), (f"/{folder}", "user")):
        install = {"target": "claude-code", "scope": scope, "install_dir": install_dir}
        path.write_text(json.dumps({"version": 1, "installs": [install]}))
        with pytest.raises(StorageError, match="cannot read"):
            take(world)
