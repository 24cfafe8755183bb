"""What the package promises about itself: versions, start-up, files."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ["anthropic", "claude_agent_sdk", "mcp", "sqlalchemy", "duckdb", "sqlglot", "yaml", "questionary"]
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


@pytest.mark.parametrize("words", [["--help"], ["ingest", "--help"], ["completion", "bash"], ["nonsense"]])
def test_start_up_imports_nothing_heavy(words: list[str]) -> None:
    code = (
        "import sys, json\n"
        f"sys.argv = ['ktx', *{words!r}]\n"
        "from ktx_cli.cli.main import main\n"
        "try: main()\n"
        f"except SystemExit: print('\\n' + json.dumps([n for n in {HEAVY!r} if n in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_completing_a_word_imports_nothing_heavy() -> None:
    code = (
        "import sys, json, os\n"
        "os.environ.update(_KTX_COMPLETE='complete_bash', COMP_WORDS='ktx conn', COMP_CWORD='1')\n"
        "sys.argv = ['ktx']\n"
        "from ktx_cli.cli.main import main\n"
        "try: main()\n"
        f"except SystemExit: print('\\n' + json.dumps([n for n in {HEAVY!r} if n in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "connection" in done.stdout
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_constraints_hold_hashes_and_no_address() -> None:
    text = (ROOT / "constraints.txt").read_text()
    assert "://" not in text
    assert "--find-links" not in text
    for block in re.split(r"\n(?=\S)", text.strip()):
        assert "--hash=sha256:" in block, block.splitlines()[0]


def test_every_dependency_is_constrained() -> None:
    names = {
        line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    }
    wanted = importlib.metadata.requires("ktx-cli") or []
    assert wanted
    for requirement in wanted:
        name = re.match(r"[A-Za-z0-9_.-]+", requirement)
        assert name is not None
        assert name[0].lower().replace("_", "-") in names, requirement


def test_the_version_is_said_once(tmp_path: Path) -> None:
    from ktx_cli import __version__

    done = subprocess.run(
        [Path(sys.executable).with_name("ktx"), "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"ktx {__version__}\n"
    assert importlib.metadata.version("ktx-cli") == __version__


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
    assert {str(path): size for path, size in sizes.items() if size > 500} == {}
    assert all(path.read_text("utf-8").lstrip().startswith('"""') for path in sizes), "every module says what it is for"
