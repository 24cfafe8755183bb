"""Runs killed at random moments: whatever the moment, one more run puts everything right."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml

KILLS = 300 if os.environ.get("KTX_TEST_FULL") else 30

LOOP = textwrap.dedent("""
    import sys
    from pathlib import Path
    from ktx_cli.project.repository import Repository

    repo = Repository.discover(Path(sys.argv[1]))
    number, rounds = int(sys.argv[2]), int(sys.argv[3])
    for number in range(number, number + rounds):
        repo.recover()
        changes = {f"semantic-layer/shop/{n}.yaml": f"n: {n}\\nround: {number}\\n".encode() * 1 for n in range(6)}
        changes[f"wiki/{number % 3}/page.md"] = f"# {number}\\n".encode()
        changes[f"wiki/{(number + 1) % 3}/page.md"] = None
        result = repo.commit(changes, message=f"round {number}", base=repo.head().commit)
        print(number, flush=True)
""")


def _descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *_descendants(child)]
    return found


def _kill(run: subprocess.Popen[bytes], how: str) -> None:
    if how == "process":
        run.kill()
    elif how == "group":
        os.killpg(run.pid, signal.SIGKILL)
    else:  # as the end of a container does: the git children in their own sessions, too
        try:
            victims = _descendants(run.pid)
        except OSError:
            victims = []
        run.kill()
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    run.wait()


def _run(python: str, work: Any, number: int, rounds: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [python, "-c", LOOP, work.top, str(number), str(rounds)], stdout=subprocess.PIPE, start_new_session=True
    )


@pytest.mark.parametrize("how", ["process", "group", "everything"])
def test_killed_at_random_moments(work: Any, python: str, how: str) -> None:
    chance = random.Random(f"kills {how}")
    work.write("README.md", "the user's edit\n")
    work.write("staged.txt", "s\n")
    work.git("add", "staged.txt")
    status = work.status()
    number = 0
    for kill in range(KILLS // 3):
        number += 1000
        run = _run(python, work, number, 1000)
        assert run.stdout is not None
        run.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.15))
        _kill(run, how)
        run.stdout.close()
        _assert_valid(work)
        assert work.repo.recover() is not None
        _assert_right(work, status, f"{how} {kill}: recovered")
    last = _run(python, work, number + 1000, 1)
    last.communicate()
    assert last.returncode == 0
    _assert_right(work, status, f"{how}: one more run")
    assert work.read("semantic-layer/shop/0.yaml") == b"n: 0\nround: %d\n" % (number + 1000)


def _assert_valid(work: Any) -> None:
    """Right after the kill: objects, branch and files are whole."""
    said = subprocess.run(["git", "fsck", "--strict", "--no-dangling"], cwd=work.top, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    for path in work.root.rglob("*.yaml"):
        yaml.load(path.read_bytes(), where=path.name)


def _assert_right(work: Any, status: list[str], when: str) -> None:
    assert work.leftovers() == [], when
    assert work.status() == status, when
    rounds = {work.read(f"semantic-layer/shop/{n}.yaml").split(b"round")[1] for n in range(6)}
    assert len(rounds) == 1, when
    assert work.git("diff", "HEAD", "--name-only").split() == ["README.md", "staged.txt"], when
