"""Folders and repositories as raw files: over file paths and HTTP, with tokens that leave no trace."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktx_cli.core.errors import CancelledError, ConfigError, SecretError, SourceError
from ktx_cli.documents.raw import Snapshot
from ktx_cli.project.layout import Layout
from ktx_cli.sources import git_cache
from ktx_cli.sources.deliveries import RawStore
from ktx_cli.sources.git import Origin, Wanted, fetch_files
from ktx_cli.sources.git_cache import FOLDER, BranchMissingError, RepositoryDeniedError, RepositoryUnreachableError
from ktx_cli.sources.port import FetchContext
from tests.sources.git_server import ENVIRON, GitServer, Repository, git, serve

TOKEN = "tok-0123456789-secret"
FILES: dict[str, str | None] = {"a.yml": "a: 1\n", "models/b.yml": "b: 1\n", "models/c.sql": "select 1\n"}


def yaml_files(path: str) -> int:
    return 1000 if path.endswith(".yml") else 0


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "served" / "team.git")
    made.commit(FILES)
    return made


@pytest.fixture
def context(tmp_path: Path) -> FetchContext:
    layout = Layout(tmp_path / "project")
    layout.root.mkdir()
    environ = {**os.environ, **ENVIRON, "GIT_TOKEN": TOKEN}
    return FetchContext("analytics", layout, environ, RawStore(layout.private / "raw"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with serve(tmp_path / "served") as running:
        yield running


def fetch(context: FetchContext, url: object, wanted: Wanted = yaml_files, **settings: str | None) -> Snapshot:
    return fetch_files(Origin("connections.analytics", url=str(url), **settings), context, wanted)


def texts(snapshot: Snapshot) -> dict[str, str]:
    return {path: file.text() for path, file in snapshot.files.items()}


def test_the_committed_files_of_a_local_repository(repository: Repository, context: FetchContext) -> None:
    (repository.folder / "a.yml").write_text("not committed\n")
    found = fetch(context, repository.folder)
    assert texts(found) == {"a.yml": "a: 1\n", "models/b.yml": "b: 1\n"}
    assert found.fetched == 2 and found.complete
    assert found.origin.startswith(repository.folder.as_uri()) and "(main, " in found.origin


@pytest.mark.parametrize("form", ["{0}", "file://{0}"])
def test_forms_of_local_addresses(repository: Repository, context: FetchContext, form: str) -> None:
    assert fetch(context, form.format(repository.folder)).files


def test_what_changed_is_fetched(repository: Repository, context: FetchContext) -> None:
    first = fetch(context, repository.folder)
    repository.commit({"a.yml": "a: 2\n", "models/b.yml": None, "new.yml": "n: 1\n"})
    previous = {path: file.sha256 for path, file in first.files.items()}
    again = FetchContext("analytics", context.layout, context.environ, context.raw, previous=previous)
    found = fetch(again, repository.folder)
    assert texts(found) == {"a.yml": "a: 2\n", "new.yml": "n: 1\n"} and found.fetched == 2
    unchanged = {path: file.sha256 for path, file in found.files.items()}
    same = FetchContext("analytics", context.layout, context.environ, context.raw, previous=unchanged)
    assert fetch(same, repository.folder).fetched == 0


def test_history_that_was_written_anew(repository: Repository, context: FetchContext) -> None:
    fetch(context, repository.folder)
    git(repository.folder, "checkout", "-q", "--orphan", "again")
    repository.commit({"a.yml": "rewritten: 1\n"})
    git(repository.folder, "branch", "-q", "-M", "again", "main")
    assert texts(fetch(context, repository.folder))["a.yml"] == "rewritten: 1\n"


def test_the_copy_is_shallow_bare_and_knows_no_address(repository: Repository, context: FetchContext) -> None:
    repository.commit({"a.yml": "a: 2\n"})
    fetch(context, repository.folder)
    (copy,) = (context.layout.cache / FOLDER / "analytics").iterdir()
    assert (copy / "shallow").is_file() and not (copy / "hooks").exists() and not (copy / "FETCH_HEAD").exists()
    assert not any(str(repository.folder).encode() in p.read_bytes() for p in copy.rglob("*") if p.is_file())


def test_the_default_branch_is_the_repositorys_own(tmp_path: Path, context: FetchContext) -> None:
    made = Repository(tmp_path / "trunk", "trunk")
    made.commit({"a.yml": "trunk\n"})
    git(made.folder, "checkout", "-q", "-b", "main")
    made.commit({"a.yml": "main\n"})
    git(made.folder, "checkout", "-q", "trunk")
    assert texts(fetch(context, made.folder)) == {"a.yml": "trunk\n"}
    assert texts(fetch(context, made.folder, branch="main")) == {"a.yml": "main\n"}


def test_a_repository_of_the_newer_object_format(tmp_path: Path, context: FetchContext) -> None:
    made = Repository(tmp_path / "newer", "main", "--object-format=sha256")
    made.commit(FILES)
    assert len(fetch(context, made.folder).files) == 2


def test_a_branch_that_is_not_there(repository: Repository, context: FetchContext) -> None:
    git(repository.folder, "branch", "release")
    with pytest.raises(BranchMissingError) as refused:
        fetch(context, repository.folder, branch="relese")
    assert refused.value.details["branches"] == ["main", "release"]
    assert refused.value.hint == "set connections.analytics.branch to release"


def test_a_repository_without_a_commit(tmp_path: Path, context: FetchContext) -> None:
    with pytest.raises(BranchMissingError, match="it has no branch"):
        fetch(context, Repository(tmp_path / "empty").folder)


def test_a_repository_that_is_not_there(tmp_path: Path, context: FetchContext) -> None:
    with pytest.raises(SourceError, match="does not exist") as missing:
        fetch(context, tmp_path / "nothing")
    assert missing.value.exit_code == 4
    with pytest.raises(RepositoryUnreachableError) as unreachable:
        fetch(context, "http://127.0.0.1:9/a.git")
    assert unreachable.value.exit_code == 4


@pytest.mark.parametrize("damage", ["head", "object", "lock", "everything"])
def test_a_broken_copy_is_made_anew(repository: Repository, context: FetchContext, damage: str) -> None:
    fetch(context, repository.folder)
    (copy,) = (context.layout.cache / FOLDER / "analytics").iterdir()
    if damage == "head":
        (copy / "HEAD").write_text("nonsense")
    elif damage == "lock":
        repository.commit({"a.yml": "a: 2\n"})
        (copy / "shallow.lock").touch()
    else:
        for path in copy.rglob("*"):
            if path.is_file() and (damage == "everything" or path.suffix == ".pack"):
                path.chmod(0o600)
                path.write_bytes(b"broken")
    assert len(fetch(context, repository.folder).files) == 2


def test_another_address_replaces_the_copy(repository: Repository, tmp_path: Path, context: FetchContext) -> None:
    fetch(context, repository.folder)
    other = Repository(tmp_path / "other")
    other.commit({"x.yml": "x\n"})
    assert texts(fetch(context, other.folder)) == {"x.yml": "x\n"}
    assert len(list((context.layout.cache / FOLDER / "analytics").iterdir())) == 1


def test_a_folder_in_the_repository(repository: Repository, context: FetchContext) -> None:
    assert texts(fetch(context, repository.folder, path="./models/")) == {"b.yml": "b: 1\n"}
    with pytest.raises(ConfigError, match="has no folder `nothing`"):
        fetch(context, repository.folder, path="nothing")
    for path in ("..", "models/../../x", "/etc", "~"):
        with pytest.raises(ConfigError, match="is outside the repository"):
            fetch(context, repository.folder, path=path)


def test_links_submodules_and_lfs_are_named_and_not_followed(
    repository: Repository, tmp_path: Path, context: FetchContext
) -> None:
    (tmp_path / "secret.yml").write_text("secret: 1\n")
    (repository.folder / "link.yml").symlink_to(tmp_path / "secret.yml")
    (repository.folder / "inside").symlink_to(tmp_path)
    (repository.folder / os.fsdecode(b"odd\xff.yml")).touch()
    repository.commit({"big.yml": "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "huge.yml": "x" * 2000})
    commit = git(repository.folder, "rev-parse", "HEAD").strip()
    git(repository.folder, "update-index", "--add", "--cacheinfo", f"160000,{commit},sub.yml")
    git(repository.folder, "commit", "-q", "-m", "x")
    found = fetch(context, repository.folder)
    assert sorted(found.files) == ["a.yml", "models/b.yml"]
    reasons = {each.what: each.reason for each in found.skipped}
    assert reasons == {
        "big.yml": "it is stored in git LFS, which ktx does not fetch",
        "huge.yml": "it has 2,000 bytes, more than the limit of 1,000",
        "link.yml": "it is a link, which ktx does not follow",
        "odd\\udcff.yml": "its name is not printable or not UTF-8",
        "sub.yml": "it is a submodule, which ktx does not fetch",
    }


def test_a_tree_of_itself_ten_times_over_is_not_read(
    repository: Repository, context: FetchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository of twenty objects can have more files than any machine can list."""
    monkeypatch.setattr(git_cache, "MOST_LISTED", 10_000)
    assert texts(fetch(context, repository.folder))
    repository.commit({f"{a}/{b}/{c}.yml": "a: 1\n" for a in range(6) for b in range(6) for c in range(6)})
    with pytest.raises(SourceError, match="too many files"):
        fetch(context, repository.folder)


def test_hooks_of_nobody_run(repository: Repository, tmp_path: Path, context: FetchContext) -> None:
    template = tmp_path / "template" / "hooks"
    template.mkdir(parents=True)
    for name in ("reference-transaction", "post-checkout"):
        (template / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (template / name).chmod(0o755)
    environ = {**context.environ, "GIT_TEMPLATE_DIR": str(template.parent)}
    fetch(FetchContext("analytics", context.layout, environ, context.raw), repository.folder)
    assert not (tmp_path / "ran").exists()


def test_a_rewritten_address_cannot_run_a_program(
    repository: Repository, tmp_path: Path, context: FetchContext
) -> None:
    settings = tmp_path / "gitconfig"
    settings.write_text(f'[url "ext::sh -c touch% {tmp_path}/ran "]\n  insteadOf = https://evil.example/\n')
    environ = {**context.environ, "GIT_CONFIG_GLOBAL": str(settings), "GIT_ALLOW_PROTOCOL": "ext"}
    with pytest.raises(RepositoryUnreachableError, match="not allowed"):
        fetch(FetchContext("analytics", context.layout, environ, context.raw), "https://evil.example/x")
    assert not (tmp_path / "ran").exists()


def test_over_http_with_a_token(repository: Repository, server: GitServer, context: FetchContext) -> None:
    pair = base64.b64encode(f"token:{TOKEN}".encode()).decode()
    server.authorization = f"Basic {pair}"
    found = fetch(context, f"{server.url}/team.git", token="env:GIT_TOKEN")
    assert len(found.files) == 2 and TOKEN not in found.origin
    first = len(server.requests)
    fetch(context, f"{server.url}/team.git", token="env:GIT_TOKEN")
    assert not any("git-upload-pack" in path and method == "POST" and "fetch" in path
                   for method, path, _ in server.requests[first:])  # fmt: skip
    assert len(server.requests) - first == 2, "one look at the branch, and nothing fetched"
    on_disk = [p for p in context.layout.root.rglob("*") if p.is_file()]
    assert on_disk and not any(secret in p.read_bytes() for p in on_disk for secret in (TOKEN.encode(), pair.encode()))


def test_a_token_is_in_no_argument(
    repository: Repository, server: GitServer, context: FetchContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    start = subprocess.Popen

    def note(command: list[str], *arguments: object, **named: object) -> object:
        seen.append([str(word) for word in command])
        return start(command, *arguments, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", note)
    url = server.url.replace("://", f"://me:{TOKEN}@")
    server.authorization = "Basic " + base64.b64encode(f"me:{TOKEN}".encode()).decode()
    found = fetch(context, f"{url}/team.git")
    assert found.files and TOKEN not in found.origin
    words = [word for command in seen for word in command]
    assert "fetch" in words and not any(TOKEN in word or "Authorization" in word for word in words)


@pytest.mark.parametrize("token", ["env:GIT_TOKEN", None])
def test_a_token_that_is_refused(
    repository: Repository, server: GitServer, context: FetchContext, token: str | None
) -> None:
    server.authorization = "Basic other"
    with pytest.raises(RepositoryDeniedError) as refused:
        fetch(context, f"{server.url}/team.git", token=token)
    shown = str(refused.value.to_json())
    pair = base64.b64encode(f"token:{TOKEN}".encode()).decode()
    assert TOKEN not in shown and pair not in shown
    assert "auth_token_ref" in (refused.value.hint or "") and refused.value.exit_code == 3


def test_a_token_is_not_sent_on(
    repository: Repository, server: GitServer, context: FetchContext, tmp_path: Path
) -> None:
    with serve(tmp_path / "served") as other:
        server.status, server.location = 301, other.url
        with pytest.raises(RepositoryUnreachableError) as moved:
            fetch(context, f"{server.url}/team.git", token="env:GIT_TOKEN")
        assert other.requests == [] and "has moved" in (moved.value.hint or "")
        assert fetch(context, f"{server.url}/team.git").files, "without a token it is followed"


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_that_fails_leaves_the_copy_for_the_next_run(
    repository: Repository, server: GitServer, context: FetchContext, status: int
) -> None:
    fetch(context, f"{server.url}/team.git")
    (copy,) = (context.layout.cache / FOLDER / "analytics").iterdir()
    before = sorted(path.name for path in copy.rglob("*.pack"))
    server.status = status
    with pytest.raises(RepositoryUnreachableError):
        fetch(context, f"{server.url}/team.git")
    assert before and sorted(path.name for path in copy.rglob("*.pack")) == before


def test_a_secret_that_is_not_there(repository: Repository, context: FetchContext) -> None:
    with pytest.raises(SecretError, match="auth_token_ref"):
        fetch(context, repository.folder, token="env:NO_SUCH_TOKEN")


def test_a_token_nobody_asks_for_is_named(repository: Repository, context: FetchContext) -> None:
    assert [each.code for each in fetch(context, repository.folder, token="env:GIT_TOKEN").warnings] == ["token_unused"]


def test_ssh_never_asks(context: FetchContext, tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "ssh"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/asked\necho "git@h: Permission denied (publickey)." >&2\nexit 255\n'
    )
    fake.chmod(0o755)
    environ = {**context.environ, "PATH": f"{fake.parent}:{context.environ['PATH']}", "SSH_ASKPASS": "/bin/false"}
    with pytest.raises(RepositoryDeniedError, match="the SSH key was rejected"):
        fetch(FetchContext("analytics", context.layout, environ, context.raw), "git@git.example.com:team/dbt.git")
    assert "BatchMode=yes" in (tmp_path / "asked").read_text()


def test_a_folder_as_it_is(tmp_path: Path, context: FetchContext) -> None:
    folder = context.layout.root / "dbt"
    for name in ("a.yml", "models/b.yml", ".git2/c.yml", "dbt_packages/d.yml", "models/x.sql"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (tmp_path / "outside.yml").write_text("secret")
    (folder / "out.yml").symlink_to(tmp_path / "outside.yml")
    (folder / "in.yml").symlink_to(folder / "a.yml")
    (folder / ".env").write_text("KEY: canary\n")
    (folder / "hidden.yml").symlink_to(folder / ".env")
    (folder / "gone.yml").symlink_to(folder / "nothing")
    (folder / "up").symlink_to(tmp_path)
    (folder / "loop.yml").symlink_to(folder / "loop.yml")
    (folder / "odd\nname.yml").touch()
    os.mkfifo(folder / "pipe.yml")
    found = fetch_files(Origin("connections.analytics", folder="dbt"), context, yaml_files)
    assert texts(found) == {"a.yml": "a.yml", "in.yml": "a.yml", "models/b.yml": "models/b.yml"}
    assert {each.what: each.reason for each in found.skipped} == {
        "gone.yml": "it is a broken link",
        "loop.yml": "it is a broken link",
        "odd\nname.yml": "its name is not printable or not UTF-8",
        "hidden.yml": "it is a link to a hidden file",
        "out.yml": "it is a link to a target outside the folder",
        "pipe.yml": "it is not a regular file",
    }
    with pytest.raises(ConfigError, match="is outside "):
        fetch_files(Origin("connections.analytics", folder="dbt", path="up"), context, yaml_files)


def test_a_run_that_is_to_end(repository: Repository, context: FetchContext) -> None:
    stopped = FetchContext("analytics", context.layout, context.environ, context.raw, stopped=lambda: True)
    with pytest.raises(CancelledError):
        fetch(stopped, repository.folder)


def test_settings_of_an_outer_repository_do_not_count(repository: Repository, context: FetchContext) -> None:
    git(context.layout.root, "init", "-q")
    git(context.layout.root, "config", "url.file:///nowhere/.insteadOf", repository.folder.as_uri())
    assert fetch(context, repository.folder).files
