"""What `ktx agents list` sees: installed, changed, stale, unreadable."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktx_cli.jobs.clients.listing import ClientState, list_clients
from ktx_cli.jobs.clients.targets import CLIENTS, Scope, Target
from tests.jobs.clients.conftest import World

HERE = (Target.CURSOR, Scope.PROJECT)
MINE = (Target.CURSOR, Scope.USER)


def states(world: World, project: Path | None = None) -> dict[tuple[Target, Scope], ClientState]:
    return {(each.target, each.scope): each for each in list_clients(world.where(project))}


def test_every_client_in_every_scope(world: World) -> None:
    found = states(world)
    assert set(found) == {(target, scope) for target, client in CLIENTS.items() for scope in client.places}
    assert {each.state for each in found.values()} == {"not_installed"}
    world.install(Target.CURSOR, Target.UNIVERSAL)
    found = states(world)
    assert {key for key, each in found.items() if each.state == "installed"} == {
        HERE, (Target.UNIVERSAL, Scope.PROJECT),
    }  # fmt: skip
    assert (found[HERE].name, found[HERE].reasons) == ("ktx", [])
    assert not (world.project() / ".ktx/state.sqlite").exists()


def test_nothing_is_written(world: World) -> None:
    before = world.everything()
    list_clients(world.where())
    assert world.everything() == before
    assert not (world.project() / ".ktx").exists()


def test_changed_since(world: World) -> None:
    world.install(Target.CURSOR)
    path = world.project() / ".cursor/mcp.json"
    original = path.read_text()
    path.write_text(original.replace('"stdio",', '"stdio", "env": {},', 1))
    assert (states(world)[HERE].state, states(world)[HERE].reasons) == ("changed", ["`ktx` was edited"])
    path.write_text("{}")
    assert states(world)[HERE].reasons == ["`ktx` is no longer in the file"]
    path.unlink()
    assert states(world)[HERE].state == "changed"
    path.write_text(original)
    rule = world.project() / ".cursor/rules/ktx-admin.mdc"
    rule.write_text("mine")
    assert states(world)[HERE].reasons == [f"{rule} was edited"]
    rule.unlink()
    assert states(world)[HERE].reasons == [f"{rule} is missing"]


def test_ktx_is_gone(world: World) -> None:
    world.install(Target.CURSOR)
    world.install(Target.CURSOR, scope=Scope.USER)
    world.ktx.unlink()
    found = states(world)
    assert (found[HERE].state, found[HERE].reasons) == ("stale", ["the program `ktx` is not on PATH"])
    assert (found[MINE].state, found[MINE].reasons) == ("stale", [f"the program `{world.ktx}` no longer exists"])


def test_the_project_moved(world: World) -> None:
    shop = world.project()
    world.install(Target.CURSOR, Target.CLAUDE_CODE)
    world.install(Target.CURSOR, scope=Scope.USER)
    moved = shop.rename(world.folder / "moved")
    found = states(world, moved)
    assert found[HERE].state == found[Target.CLAUDE_CODE, Scope.PROJECT].state == "installed"
    assert found[MINE].state == "stale"
    assert found[MINE].reasons == [f"it serves {shop}, but this project is {moved}"]


def test_a_skill_of_another_version(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktx_cli.jobs.clients import listing

    world.install(Target.CURSOR)
    rule = world.project() / ".cursor/rules/ktx-admin.mdc"
    monkeypatch.setattr(listing, "skill_files", lambda place, where: {rule: b"newer\n"})
    assert states(world)[HERE].state == "stale"


def test_another_projects_entry_is_not_this_ones(world: World) -> None:
    world.install(Target.CURSOR, scope=Scope.USER, project=world.project("till"))
    assert states(world)[MINE].state == "not_installed"


def test_a_colleagues_entry_is_seen(world: World) -> None:
    world.install(Target.CURSOR)
    (world.project() / ".ktx/agents/manifest.json").unlink()
    assert (states(world)[HERE].state, states(world)[HERE].name) == ("installed", "ktx")


def test_a_broken_file_hides_no_other(world: World) -> None:
    world.install(Target.CURSOR, Target.CLAUDE_CODE)
    (world.project() / ".cursor/mcp.json").write_text("{")
    found = states(world)
    assert found[HERE].state == "unreadable"
    assert "line 1" in found[HERE].reasons[0]
    assert found[Target.CLAUDE_CODE, Scope.PROJECT].state == "installed"
