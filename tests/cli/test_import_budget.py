"""How many modules of ours a command imports: faces load what they name when somebody asks for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COUNT = """
import sys
from ktx_cli.cli.main import command_line
words = sys.argv[1:]
try:
    command_line(words)(words, prog_name="ktx")
finally:
    print(sum(name.partition(".")[0] == "ktx_cli" for name in sys.modules), file=sys.stderr)
"""


QUESTION = "sl query -m order_revenue.net_revenue -d customer_value.is_active"


@pytest.mark.parametrize(
    ("command", "most"),
    [
        pytest.param("scan", 224, marks=pytest.mark.slow),
        ("ingest", 263),
        (QUESTION, 127),
        pytest.param("sl list", 80, marks=pytest.mark.slow),
        pytest.param("wiki revenue", 117, marks=pytest.mark.slow),
        pytest.param("lint", 171, marks=pytest.mark.slow),
        pytest.param("wiki lint", 85, marks=pytest.mark.slow),
        ("--project-dir . status", 170),
        ("--help", 53),
    ],
)
def test_a_run_imports_what_it_needs(demo_project: Path, tmp_path: Path, command: str, most: int) -> None:
    project = tmp_path / "demo"
    shutil.copytree(demo_project, project)
    if command in ("scan", "ingest"):  # so that what is kept of the files is of these, as before most runs
        subprocess.run([sys.executable, "-m", "ktx_cli", "index", "--quiet"], cwd=project, check=True, timeout=120)
    done = subprocess.run(
        [sys.executable, "-c", COUNT, *command.split()],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0 or command.endswith(("lint", "status")), done.stderr
    assert int(done.stderr.split()[-1]) <= most


UNCHANGED = """
import sys
from ktx_cli.engine import agents_needed, read_sources, source_warnings, write_deliveries
from ktx_cli.sources.query_history.source import QueryHistorySource
print(*sorted({"sqlglot", "ktx_cli.engine.agents", "ktx_cli.engine.work"} & set(sys.modules)))
"""


def test_a_run_in_which_nothing_changed_imports_no_agents_and_reads_no_sql() -> None:
    done = subprocess.run([sys.executable, "-c", UNCHANGED], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "ktx_cli.engine.work\n"
