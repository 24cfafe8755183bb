"""Managed settings are found by looking for their files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ktx_cli.core.errors import ResultWarning
from ktx_cli.llm.backends.claude import session
from ktx_cli.llm.backends.claude.session import check_managed, config_folder, managed_files, system_folder
from ktx_cli.llm.errors import LlmError


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "system"
    folder.mkdir()
    monkeypatch.setattr(session, "system_folder", lambda: folder)
    return folder


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home" / ".claude").mkdir(parents=True)
    return {"HOME": str(tmp_path / "home")}


FILES: list[tuple[str, str, bool]] = [
    ("managed-settings.json", '{"hooks": {}}', True),
    ("managed-settings.json", "{}", False),
    ("managed-settings.json", "", False),
    ("managed-settings.json", "not json", True),
    ("managed-settings.json", "[]", True),
    ("managed-settings.d/10-first.json", '{"env": {"A": "1"}}', True),
    ("managed-settings.d/10-first.txt", "not settings", False),
    ("managed-mcp.json", '{"mcpServers": {}}', True),
    ("CLAUDE.md", "Be brief.", True),
    ("CLAUDE.md", " \n", False),
    ("something-else.json", '{"hooks": {}}', False),
]


@pytest.mark.parametrize(("name", "text", "found"), FILES)
def test_files_of_the_system(system: Path, environ: dict[str, str], name: str, text: str, found: bool) -> None:
    path = system / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    assert managed_files(environ) == ([path] if found else [])


REMOTE: list[tuple[str, bool]] = [
    ("{}", False),
    ('{"uuid": "u", "checksum": "c", "settings": {}}', False),
    ('{"settings": {}}', False),
    ('{"settings": null}', False),
    ('{"hooks": {"SessionStart": []}}', True),
    ('{"uuid": "u", "checksum": "c", "settings": {"env": {"A": "1"}}}', True),
]


@pytest.mark.parametrize(("text", "found"), REMOTE)
def test_settings_the_server_sent(system: Path, environ: dict[str, str], text: str, found: bool) -> None:
    path = Path(environ["HOME"]) / ".claude" / "remote-settings.json"
    path.write_text(text, "utf-8")
    assert managed_files(environ) == ([path] if found else [])


def test_the_configuration_folder(tmp_path: Path) -> None:
    assert config_folder({"HOME": "/h"}) == Path("/h/.claude")
    assert config_folder({"HOME": "/h", "CLAUDE_CONFIG_DIR": "/c"}) == Path("/c")
    assert config_folder({}) == Path.home() / ".claude"


def test_the_systems_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for platform, folder in session.FOLDERS.items():
        monkeypatch.setattr("sys.platform", platform)
        assert system_folder() == Path(folder)


def test_a_file_that_cannot_be_read_counts(
    system: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = system / "managed-settings.json"
    path.write_text("{}", "utf-8")
    read = Path.read_text

    def refuse(self: Path, *args: object, **kwargs: object) -> str:
        if self == path:
            raise PermissionError(13, "denied")
        return read(self, "utf-8")

    monkeypatch.setattr(Path, "read_text", refuse)
    assert managed_files(environ) == [path]


def test_what_is_found_is_an_error_that_names_it_or_the_accepted_warning(system: Path, environ: dict[str, str]) -> None:
    warnings: list[ResultWarning] = []
    check_managed(environ, backend="claude-code", allowed=False, warn=warnings.append)
    path = system / "managed-settings.json"
    path.write_text(json.dumps({"env": {"A": "1"}}), "utf-8")
    with pytest.raises(LlmError, match=r"managed-settings\.json") as caught:
        check_managed(environ, backend="claude-code", allowed=False, warn=warnings.append)
    assert caught.value.code == "isolation"
    assert "llm.provider.claude.allow_managed_policy true" in (caught.value.hint or "")
    assert caught.value.details["origin"] == [str(path)]
    assert warnings == []
    check_managed(environ, backend="claude-code", allowed=True, warn=warnings.append)
    assert [warning.code for warning in warnings] == ["managed_policy"]
