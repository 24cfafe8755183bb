from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ktx_cli.project.repository.model import CommitResult
from ktx_cli.project.repository.store import Repository

if TYPE_CHECKING:
    from ktx_cli.project.repository.model import MergeFunction


class Work:
    """A repository with a person working in it: their git, their files, and what must stay as it is."""

    def __init__(self, top: Path, prefix: str = "") -> None:
        self.top = top
        self.root = top / prefix if prefix else top

    def git(self, *arguments: str, ok: bool = True, stdin: bytes = b"", **variables: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.top, input=stdin, capture_output=True, env={**os.environ, **variables}
        )
        if ok:
            assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode("utf-8", "surrogateescape")

    def write(self, path: str, content: str | bytes) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def read(self, path: str) -> bytes | None:
        target = self.root / path
        return target.read_bytes() if target.is_file() else None

    def user_commit(self, message: str = "by hand") -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    @cached_property
    def repo(self) -> Repository:
        found = Repository.discover(self.root)
        assert found is not None
        return found

    @property
    def head(self) -> str | None:
        return self.repo.head().commit

    def commit(
        self,
        changes: dict[str, bytes | None],
        *,
        message: str = "ktx: test",
        base: str | None = "HEAD",
        merge: MergeFunction | None = None,
    ) -> CommitResult:
        return self.repo.commit(changes, message=message, base=self.head if base == "HEAD" else base, merge=merge)

    def status(self) -> list[str]:
        return [line for line in self.git("status", "--porcelain=v2", "-z", "-uall").split("\0") if line]

    def index(self) -> list[str]:
        return [line for line in self.git("ls-files", "-s", "-v", "-z").split("\0") if line]

    def show(self, path: str, commit: str = "HEAD") -> bytes | None:
        done = subprocess.run(["git", "show", f"{commit}:{path}"], cwd=self.root, capture_output=True)
        return done.stdout if done.returncode == 0 else None

    def names(self, commit: str = "HEAD") -> list[str]:
        return [
            n
            for n in self.git("diff-tree", "-r", "-z", "--name-only", "--root", "--no-commit-id", commit).split("\0")
            if n
        ]

    def assert_clean(self) -> None:
        assert self.git("diff-files", "--name-only") == ""  # first: it does not refresh the index as status does
        assert self.status() == []

    def leftovers(self) -> list[str]:
        git_dir = Path(self.git("rev-parse", "--path-format=absolute", "--git-common-dir").strip())
        found = [str(p) for p in git_dir.rglob("*") if p.name.startswith(("ktx-", "fast_")) or p.suffix == ".lock"]
        found += [str(p) for p in self.root.rglob("*.ktx-tmp")]
        private = self.root / ".ktx"
        return found + [str(p) for p in private.glob("*") if p.name.startswith(("staging", "journal"))]


def tree_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found = path.lstat()
        digest.update(repr((str(path), found.st_mode, found.st_size, found.st_mtime_ns, found.st_ino)).encode())
        if path.is_file() and not path.is_symlink():
            digest.update(path.read_bytes())
    return digest.hexdigest()


@pytest.fixture
def digest() -> object:
    return tree_digest


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("home")
    for name in [name for name in os.environ if name.startswith("GIT_") or name == "EMAIL"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "xdg"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (folder / ".gitconfig").write_text(
        "[user]\nname = Ann Lee\nemail = ann@example.com\n[init]\ndefaultBranch = main\n"
    )
    return folder


@pytest.fixture
def work(tmp_path: Path) -> Work:
    """A repository with one commit: two files in folders, one beside."""
    top = tmp_path / "work"
    top.mkdir()
    made = Work(top)
    made.git("init", "-q", "--template=")
    made.write("semantic-layer/shop/orders.yaml", "name: orders\n")
    made.write("semantic-layer/shop/items.yaml", "name: items\n")
    made.write("README.md", "hello\n")
    made.user_commit()
    return made


@pytest.fixture
def empty(tmp_path: Path) -> Work:
    """A repository without a commit."""
    top = tmp_path / "empty"
    top.mkdir()
    made = Work(top)
    made.git("init", "-q", "--template=")
    return made


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True)
    if done.returncode:
        pytest.skip(f"mount refused: {done.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def python() -> str:
    return sys.executable
