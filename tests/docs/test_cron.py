"""What the page on cron and timers gives to other programs is taken by them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, blocks_of
from tests.docs.running import ktx

PAGE = "docs/guides/cron.md"
BLOCKS = blocks_of((ROOT / PAGE).read_text("utf-8"), PAGE)
INSTALLED = str(Path(sys.executable).with_name("ktx"))
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def of_kind(kind: str) -> list[Block]:
    found = [block for block in BLOCKS if block.kind == kind]
    assert found
    return found


def runs_where_there_is_no_project(command: str) -> bool:
    """Whether the command line takes the words of a `ktx` command, in the current folder, which is empty."""
    words = shlex.split(command)
    start = next(place for place, word in enumerate(words) if Path(word).name == "ktx")
    code, said = ktx(*(words[start + 1 : words.index(">")] if ">" in words else words[start + 1 :]))
    return code == 3 and said.startswith("error: no ktx.yaml")


def test_lines_of_a_crontab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in of_kind("cron"):
        for line in block.text.splitlines():
            *fields, command = line.split(maxsplit=5)
            for field, (low, high) in zip(fields, RANGES, strict=True):
                assert field == "*" or low <= int(field) <= high, line
            assert not re.search(r"(?<!\\)%", command), "cron ends a command at %"
            assert subprocess.run(["sh", "-n", "-c", command], check=False).returncode == 0
            assert runs_where_there_is_no_project(command.replace("'mail", "'true")), command
    assert (tmp_path / ".ktx" / "logs" / "ingest.jsonl").read_text().count("no_project") == 1


def test_units_of_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    units = {str(block.title): block.text for block in of_kind("ini")}
    assert sorted(units) == ["ktx-ingest.service", "ktx-ingest.timer"]
    (start,) = re.findall(r"ExecStart=(.*)", units["ktx-ingest.service"])
    assert runs_where_there_is_no_project(start)
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze here")
    for name, text in units.items():
        (tmp_path / name).write_text(text.replace("/usr/local/bin/ktx", INSTALLED))
    done = subprocess.run(
        [analyze, "verify", "--man=no", *(str(tmp_path / name) for name in units)], capture_output=True, text=True
    )
    told = [line for line in done.stderr.splitlines() if "ktx-ingest" in line]
    assert (done.returncode, told) == (0, []), done.stderr
