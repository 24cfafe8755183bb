"""Runs killed at random moments: whatever the moment, one more run puts everything right."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml

KILLS = 300 if os.environ.get("KTX_TEST_FULL") else 15

# Forks a run for every line `FIRST ROUNDS`, so that Python starts once; prints its pid and how it ended.
NURSERY = textwrap.dedent("""
    import os, sys
    from pathlib import Path
    from ktx_cli.project import state
    from ktx_cli.project import Repository

    def rounds(first, count):
        repo = Repository.discover(Path(sys.argv[1]))
        for number in range(first, first + count):
            repo.recover()
            changes = {f"semantic-layer/shop/{n}.yaml": f"n: {n}\\nround: {number}\\n".encode() for n in range(6)}
            changes[f"wiki/{number % 3}/page.md"] = f"# {number}\\n".encode()
            changes[f"wiki/{(number + 1) % 3}/page.md"] = None
            repo.commit(changes, message=f"round {number}", base=repo.head().commit)

    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            os.setsid()
            print(os.getpid(), flush=True)
            rounds(*map(int, line.split()))
            os._exit(0)
        print(os.waitpid(pid, 0)[1], flush=True)
""")


class Nursery:
    """Runs that loop over recover and commit, each in a session of its own."""

    def __init__(self, python: str, work: Any) -> None:
        self._process = subprocess.Popen(
            [python, "-c", NURSERY, work.top], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, first: int, count: int) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{first} {count}\n")
        self._process.stdin.flush()
        return self._answer()

    def ended(self) -> int:
        return self._answer()

    def close(self) -> None:
        self._process.communicate()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


@pytest.fixture
def nursery(work: Any, python: str) -> Iterator[Nursery]:
    made = Nursery(python, work)
    yield made
    made.close()


def _descendants(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):  # it has ended meanwhile, and its children with it or beside it
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, children.read_text().split()):
                found += [child, *_descendants(child)]
    return found


def _kill(pid: int, how: str) -> None:
    if how == "process":
        os.kill(pid, signal.SIGKILL)
    elif how == "group":
        os.killpg(pid, signal.SIGKILL)
    else:  # as the end of a container does: the git children in their own sessions, too
        for victim in [pid, *_descendants(pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("how", "share"), [("process", 12), ("group", 12), ("everything", 6)])
def test_killed_at_random_moments(work: Any, nursery: Nursery, how: str, share: int) -> None:
    chance = random.Random(f"kills {how}")
    work.write("README.md", "the user's edit\n")
    work.write("staged.txt", "s\n")
    work.git("add", "staged.txt")
    status = work.status()
    assert nursery.start(0, 1) and nursery.ended() == 0
    number = 0
    for kill in range(KILLS * share // 30):
        number += 1000
        pid = nursery.start(number, 1000)
        time.sleep(chance.uniform(0.0, 0.15))
        _kill(pid, how)
        assert nursery.ended() == signal.SIGKILL
        _assert_valid(work)
        work.repo.recover()
        _assert_right(work, status, f"{how} {kill}: recovered")
    assert nursery.start(number + 1000, 1) and nursery.ended() == 0
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
