"""What the package promises about itself: versions, start-up, files."""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ["anthropic", "claude_agent_sdk", "mcp", "duckdb", "sqlglot", "yaml", "questionary"]
UNWANTED = ["pydantic", "pydantic_core", "rich", "typer.rich_utils", "typer._adapters"]
"""Modules a fast answer needs neither: a third to a half of the time it takes."""
MEASURED_SDK = "0.2.186"
MEASURED_BINARY = "2.1.329"


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_sdk_is_the_one_that_was_measured() -> None:
    assert importlib.metadata.version("claude-agent-sdk") == MEASURED_SDK
    pinned = re.search(r"^claude-agent-sdk==(\S+)", (ROOT / "constraints.txt").read_text(), re.M)
    assert pinned is not None
    assert pinned[1] == MEASURED_SDK


def test_the_bundled_binary_is_the_one_that_was_measured() -> None:
    folder = importlib.metadata.distribution("claude-agent-sdk").locate_file("claude_agent_sdk")
    binary = Path(str(folder)) / "_bundled" / "claude"
    done = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == MEASURED_BINARY


def imported(words: list[str], modules: list[str], **environ: str) -> tuple[str, list[str]]:
    """Run `ktx` in a process of its own; return what it printed and which of the modules it imported."""
    code = (
        "import sys, json\n"
        f"sys.argv = ['ktx', *{words!r}]\n"
        "from ktx_cli.cli.main import main\n"
        "try: main()\n"
        f"except SystemExit: print('\\n' + json.dumps([n for n in {modules!r} if n in sys.modules]))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environ})
    *printed, last = done.stdout.splitlines()
    return "\n".join(printed), json.loads(last)


@pytest.mark.table(
    "words",
    [
        ["--help"],
        ["ingest", "--help"],
        ["completion", "bash"],
        ["completion", "tcsh"],
        ["nonsense"],
        ["status", "--jsn"],
    ],
)
def test_start_up_imports_nothing_heavy(words: list[str]) -> None:
    assert imported(words, [*HEAVY, *UNWANTED])[1] == []


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("line", "found"),
    [("ktx conn", "connection"), ("ktx scan --depth str", "structural"), ("ktx status --pro", "--project-dir")],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completing_a_word_imports_nothing_heavy(shell: str, line: str, found: str) -> None:
    words = (
        {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))} if shell == "bash" else {"_TYPER_COMPLETE_ARGS": line}
    )
    action = {"_TYPER_COMPLETE_FISH_ACTION": "get-args"} if shell == "fish" else {}
    printed, modules = imported([], [*HEAVY, *UNWANTED], _KTX_COMPLETE=f"complete_{shell}", **words, **action)
    assert found in printed
    assert modules == []


def test_completing_an_id_reads_yaml_and_nothing_more(tmp_path: Path) -> None:
    (tmp_path / "ktx.yaml").write_text("connections: {warehouse: {driver: sqlite, path: x}}")
    words = {"COMP_WORDS": "ktx ingest w", "COMP_CWORD": "2", "KTX_PROJECT_DIR": str(tmp_path)}
    printed, modules = imported([], [*HEAVY, *UNWANTED], _KTX_COMPLETE="complete_bash", **words)
    assert (printed.strip(), modules) == ("warehouse", ["yaml"])


def test_constraints_hold_hashes_and_no_address() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert "://" not in text
    assert "--find-links" not in text
    for block in re.split(r"\n(?=\S)", text.strip()):
        assert "--hash=sha256:" in block, block.splitlines()[0]


UNCONSTRAINED = ("sentence-transformers",)
"""Extras that are not installed with the rest: they bring torch, gigabytes that no test needs."""


def test_every_dependency_is_constrained() -> None:
    names = {
        line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    }
    wanted = importlib.metadata.requires("ktx-cli") or []
    assert wanted
    for requirement in wanted:
        name = re.match(r"[A-Za-z0-9_.-]+", requirement)
        assert name is not None
        assert (name[0] in UNCONSTRAINED) is ("extra == 'sentence-transformers'" in requirement.replace('"', "'"))
        if name[0] in UNCONSTRAINED:
            continue
        assert name[0].lower().replace("_", "-") in names, requirement


def test_the_version_is_said_once(tmp_path: Path) -> None:
    from ktx_cli import __version__

    done = subprocess.run(
        [Path(sys.executable).with_name("ktx"), "--version"], capture_output=True, text=True, check=True
    )
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    printed = re.fullmatch(r"ktx (\S+) \((\w{10})\)\n", done.stdout)
    assert printed is not None
    assert printed[1] == importlib.metadata.version("ktx-cli") == __version__
    assert head.startswith(printed[2])


BUILD = "from hatchling.cli import hatchling; hatchling()"


def built(clone: Path) -> dict[str, bytes]:
    """Build the wheel and the source distribution of a clone; return them by name."""
    environ = {**os.environ, "SOURCE_DATE_EPOCH": "1790000000"}
    subprocess.run(
        [sys.executable, "-c", BUILD, "build", "-d", "dist"], cwd=clone, env=environ, check=True, capture_output=True
    )
    return {path.name: path.read_bytes() for path in sorted((clone / "dist").iterdir())}


@pytest.mark.slow
def test_two_clones_build_the_same_bytes(tmp_path: Path) -> None:
    clones = [tmp_path / "one", tmp_path / "two"]
    for clone in clones:
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    first, second = map(built, clones)
    assert sorted(first) == [f"ktx_cli-{version()}-py3-none-any.whl", f"ktx_cli-{version()}.tar.gz"]
    assert first == second
    names = zipfile.ZipFile(io.BytesIO(next(iter(first.values())))).namelist()
    assert "ktx_cli/commit.txt" in names
    assert not [name for name in names if name.startswith(("tests/", "docs/", "benchmarks/"))]
    subprocess.run(["git", "tag", f"v{version()}"], cwd=clones[0], check=True)
    release = next(iter(built(clones[0]).values()))
    assert "ktx_cli/commit.txt" not in zipfile.ZipFile(io.BytesIO(release)).namelist()


def version() -> str:
    from ktx_cli import __version__

    return __version__


def test_ktx_cli_is_a_script_too() -> None:
    scripts = {each.name: each.value for each in importlib.metadata.entry_points(group="console_scripts")}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert declared["ktx-cli"] == declared["ktx"] == scripts["ktx"]


def tracked_files() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_tracked_file_names_a_machine_or_a_registry() -> None:
    pattern = re.compile(
        r"https?://[^\s\"']*(?:pypi|npmjs|pythonhosted|debian)[^\s\"']*|(?<![\w.~])/(?:work|farm|root)/\w"
    )
    found = []
    for path in tracked_files():
        if path == Path(__file__) or path.stat().st_size > 2_000_000:
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{path.relative_to(ROOT)}: {match.group(0)}" for match in pattern.finditer(text)]
    assert found == []


def test_modules_stay_readable() -> None:
    sizes = {path: len(path.read_text("utf-8").splitlines()) for path in (ROOT / "ktx_cli").rglob("*.py")}
    assert {str(path): size for path, size in sizes.items() if size > 900} == {}
    assert all(path.read_text("utf-8").lstrip().startswith('"""') for path in sizes), "every module says what it is for"
