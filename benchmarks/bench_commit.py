"""One commit of N changed files beside the user's work, against `git add` and `git commit` of the same files.

Prints wall seconds for 10, 100, 1,000 and 5,000 files, and the same in a repository that holds 20,000 other files.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ktx_cli.project.repository.store import Repository


def git(folder: Path, *args: str) -> None:
    user = ["-c", "user.name=u", "-c", "user.email=u@example.com"]
    subprocess.run(["git", *user, *args], cwd=folder, check=True, capture_output=True)


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def files(count: int) -> dict[str, bytes]:
    return {
        f"semantic-layer/w/_schema/t{n}.yaml": f"tables: {{t{n}: {{table: t{n}}}}}\n".encode() for n in range(count)
    }


def ours(folder: Path, count: int) -> float:
    repository = Repository.discover(folder)
    assert repository is not None
    return seconds(lambda: repository.commit(files(count), message="m\n", base=repository.head().commit))


def naive(folder: Path, count: int) -> float:
    def run() -> None:
        for path, content in files(count).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        git(folder, "add", "semantic-layer")
        git(folder, "commit", "-qm", "m")

    return seconds(run)


def fresh(folder: Path, others: int) -> Path:
    folder.mkdir()
    git(folder, "init", "-q")
    for number in range(others):
        path = folder / f"other/{number % 100}/{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(number))
    (folder / "first").write_text("x")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


def main() -> None:
    print(f"{'files':>7}{'others':>8}{'ktx':>9}{'add+commit':>12}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as name:
        os.environ["HOME"] = name
        for others in (0, 20_000):
            for count in (10, 100, 1_000, 5_000):
                a = ours(fresh(Path(name, f"ours-{others}-{count}"), others), count)
                b = naive(fresh(Path(name, f"naive-{others}-{count}"), others), count)
                print(f"{count:>7}{others:>8}{a:>8.3f}s{b:>11.3f}s{a / b:>7.2f}x")


if __name__ == "__main__":
    main()
