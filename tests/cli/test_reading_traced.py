"""Reading commands, seen from the kernel: no file of the project or of its `.git` is opened for writing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds.forks import Forks

COMMANDS = ["status", "search refund", "sl explain -m order_revenue.net_revenue", "wiki read cards", "wiki lint"]
if os.environ.get("KTX_TEST_FULL"):
    COMMANDS += ["status --fast --json", "sl revenue", "sl list", "sl read orders", "wiki card"]
FINDING = ("doctor", "lint --github", "diff", "eval --no-save", "setup --print-plan --llm-backend none")
"""Commands that may find something, and end with 1."""
COMPLETING = (("ktx sl read or", 3), ("ktx ingest w", 2))

CHANGING = ("creat", "rename", "unlink", "mkdir", "rmdir", "link", "truncate", "chmod", "chown", "utime", "mknod")
"""What the names of calls that change a file have in them; `open` is told by its flags."""
FOR_WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_TMPFILE")
CALL = re.compile(r"^\d+ +(?P<name>\w+)\((?P<arguments>.*)")
PATH = re.compile(r'(?:(?:AT_FDCWD|\d+)<(?P<folder>[^>]*)>, )?"(?P<name>(?:[^"\\]|\\.)*)"')
OPENED = re.compile(r"\d+<(?P<path>/[^>]*)>")


@pytest.fixture(scope="module", autouse=True)
def _strace() -> None:
    if shutil.which("strace") is None:
        assert not os.environ.get("CI"), "strace is missing"
        pytest.skip("there is no strace")


def tracing(log: Path) -> tuple[str, ...]:
    """Return the program that traces another one and all it starts."""
    traced = "trace=%file,ftruncate,fchmod,fchown"
    return ("strace", "-f", "-y", "-qq", "--seccomp-bpf", "-e", traced, "-o", str(log))


def written(log: Path, folder: Path) -> list[str]:
    """Return the calls of a trace that would change a file in a folder."""
    lines = log.read_text("utf-8", "replace").splitlines()
    assert len(lines) > 10, "the trace is empty"
    return [line for line in lines if any(path == folder or folder in path.parents for path in changed(line, folder))]


def changed(line: str, folder: Path) -> Iterator[Path]:
    """Yield the paths that a traced call would change; the files of a database that a run works on are left out."""
    call = CALL.match(line)
    if call is None:
        return
    name, arguments = call["name"], call["arguments"]
    opens = name.startswith("open") and FOR_WRITING.search(arguments) is not None
    changes = any(word in name for word in CHANGING) and not name.startswith("readlink")
    if not (opens or changes):
        return
    paths = [folder / (found["folder"] or "") / found["name"] for found in PATH.finditer(arguments)]
    for path in paths or [Path(found["path"]) for found in OPENED.finditer(arguments)]:
        if not path.name.endswith(("-wal", "-shm")):
            yield Path(os.path.normpath(path))


def test_the_trace_sees_what_is_written(tmp_path: Path) -> None:
    def written_by(script: str) -> list[str]:
        subprocess.run([*tracing(tmp_path / "log"), "sh", "-ec", script], cwd=folder, check=True)
        return written(tmp_path / "log", folder)

    folder = tmp_path / "project"
    (folder / "deep").mkdir(parents=True)
    script = "cat /dev/null; cd deep; : > new; mv new ../moved; mkdir made; touch ../moved; rm ../moved; rmdir made"
    seen = written_by(script)
    calls = {line.split("(")[0].split()[-1].removesuffix("2").removesuffix("at") for line in seen}
    assert {"open", "rename", "mkdir", "unlink", "rmdir"} <= calls
    assert written_by("cat /dev/null > ../beside; cat ../beside") == []


def completion(line: str, at: int) -> dict[str, str]:
    """Return the environment of a shell that completes a line at one of its words."""
    return {**os.environ, "_KTX_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(at)}


@pytest.mark.slow
def test_reading_opens_nothing_for_writing(demo_project: Path, tmp_path: Path) -> None:
    """The project takes no writes either, where permissions bind: reading needs none."""
    project = Path(shutil.copytree(demo_project, tmp_path / "project", symlinks=True))
    page = project / "wiki" / "global" / "cards.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("---\nsummary: What a guest card is.\n---\n# Guest cards\n")
    runs = [(words.split(), dict(os.environ), {0}) for words in COMMANDS]
    runs += [(words.split(), dict(os.environ), {0, 1}) for words in FINDING]
    runs += [([], completion(line, at), {0}) for line, at in COMPLETING]
    for path in (project, *project.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)
    try:
        with Forks(before=tracing(tmp_path / "log")) as forks:
            for words, environ, codes in runs:
                done = forks.run(words, folder=project, environ=environ, bound=os.geteuid() == 0)
                assert done.returncode in codes, (words, done)
        seen = written(tmp_path / "log", project)
    finally:
        for path in (project, *project.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
    assert seen == []
