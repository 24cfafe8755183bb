"""Which binary is run, what it must be, and which variables its processes receive."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ktx_cli.llm.backends.codex.binary import codex_environment, dropped_names, find_codex, native_program
from ktx_cli.llm.errors import LlmError

ANSWERS = """#!/bin/sh
case "$1" in
  --version) echo "{version}" ;;
  features) echo "memories  stable  true"; echo "old_thing removed true"; echo "new_thing under development false" ;;
esac
"""


def program(folder: Path, version: str = "codex-cli 0.169.0", *, name: str = "codex", script: str = ANSWERS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(script.replace("{version}", version))
    path.chmod(0o755)
    return path


def find(tmp_path: Path, environ: Mapping[str, str], cli_path: Path | None = None) -> tuple[str, str]:
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    found = find_codex(cli_path=str(cli_path) if cli_path else None, project_dir=project, environ=environ)
    return found.origin, found.path.parent.name


def test_the_order_of_places(tmp_path: Path) -> None:
    setting, variable, path = (program(tmp_path / name) for name in ("setting", "variable", "path"))
    environ = {"KTX_CODEX_CLI_BIN": str(variable), "PATH": str(path.parent)}
    assert find(tmp_path, environ, setting) == ("llm.provider.codex.cli_path", "setting")
    assert find(tmp_path, environ) == ("KTX_CODEX_CLI_BIN", "variable")
    assert find(tmp_path, {"PATH": environ["PATH"]}) == ("PATH", "path")


def test_what_is_on_is_known(tmp_path: Path) -> None:
    binary = program(tmp_path / "bin")
    found = find_codex(cli_path=str(binary), project_dir=tmp_path / "project", environ={})
    assert found.features == ("memories",)
    assert (found.version, found.version_text) == ((0, 169, 0), "0.169.0")
    assert str(found) == f"codex 0.169.0 (llm.provider.codex.cli_path: {binary})"


@pytest.mark.table(
    ("version", "words"),
    [
        ("codex-cli 0.168.9", "requires 0.169.0 or later"),
        ("codex-cli 0.20.0", "requires 0.169.0 or later"),
        ("something 1.2.3", "is not Codex"),
        ("", "is not Codex"),
    ],
)
def test_a_binary_that_is_refused(version: str, words: str, tmp_path: Path) -> None:
    binary = program(tmp_path / f"bin {version}", version)
    with pytest.raises(LlmError) as caught:
        find(tmp_path, {}, binary)
    assert caught.value.code == "connection" and words in caught.value.message and caught.value.hint


def test_a_binary_without_a_list_of_features_is_refused(tmp_path: Path) -> None:
    binary = program(tmp_path / "bin", script="#!/bin/sh\n[ $1 = --version ] && echo codex-cli 9.0.0\n")
    with pytest.raises(LlmError, match="does not list its features"):
        find(tmp_path, {}, binary)


def test_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(LlmError, match="there is no `codex` binary") as caught:
        find(tmp_path, {"PATH": str(tmp_path)})
    assert caught.value.details["installed"] is False
    assert caught.value.hint == "npm install -g @openai/codex"


def test_a_named_binary_that_is_missing_is_not_replaced(tmp_path: Path) -> None:
    path = program(tmp_path / "path")
    with pytest.raises(LlmError, match="not an executable program"):
        find(tmp_path, {"PATH": str(path.parent), "KTX_CODEX_CLI_BIN": str(tmp_path / "none")})


def test_a_binary_of_the_project_is_not_run(tmp_path: Path) -> None:
    binary = program(tmp_path / "project" / "bin", script="#!/bin/sh\ntouch ran\n")
    with pytest.raises(LlmError, match="inside the project"):
        find(tmp_path, {}, binary)
    assert not list(tmp_path.rglob("ran"))


@pytest.mark.table("nested", [False, True])
def test_npms_script_is_replaced_by_the_native_program(nested: bool, tmp_path: Path) -> None:
    modules = tmp_path / str(nested) / "node_modules"
    package = modules / "@openai" / "codex"
    script = program(package / "bin", name="codex.js")
    link = modules / ".bin" / "codex"
    link.parent.mkdir(parents=True)
    link.symlink_to(script)
    with pytest.raises(LlmError, match="without the program for this machine"):
        native_program(link)
    place = package / "node_modules" / "@openai" if nested else modules / "@openai"
    native = program(place / "codex-some-arch" / "vendor" / "some-triple" / "bin")
    program(native.parent, name="codex-code-mode-host")
    assert native_program(link) == native
    assert native_program(native) == native


def test_variables_are_kept_by_a_short_list(tmp_path: Path) -> None:
    environ = {
        "PATH": "/home/ana/bin", "HOME": "/home/ana", "OPENAI_API_KEY": "sk", "CODEX_API_KEY": "sk", "CODEX_HOME": "/c",
        "CODEX_ACCESS_TOKEN": "x", "OPENAI_BASE_URL": "https://x", "LANG": "de_DE.UTF-8", "https_proxy": "http://p:1",
        "SSL_CERT_FILE": "/ca.pem", "ANYTHING": "x",
    }  # fmt: skip
    found = codex_environment(environ, tmp_path, secret_names=["https_proxy"])
    own = dict.fromkeys(("HOME", "USERPROFILE", "CODEX_HOME", "TMPDIR", "TEMP", "TMP"), str(tmp_path))
    path = found.pop("PATH")
    assert "/home/ana" not in path
    assert found == {**own, "LANG": "de_DE.UTF-8", "SSL_CERT_FILE": "/ca.pem"}
    assert dropped_names(environ, secret_names=["https_proxy"]) == sorted(set(environ) - {"LANG", "SSL_CERT_FILE"})
