"""Published snapshots: their order in git, and the copies that a server opens."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from ktx_cli.core import ConfigError, GitError, KtxError, Notice
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.jobs.serve.snapshot import Publication, SnapshotFollower, publish, published_snapshot
from ktx_cli.project import Layout, SharedFiles
from ktx_cli.project.shared_files import KEPT_COPIES
from ktx_cli.warehouses import open_connection
from tests.small_project import make_shop_project
from tests.worlds.shared_schema import SharedSchema

pytestmark = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself")

USER = ("-c", "user.name=u", "-c", "user.email=u@example.com")


class Clone:
    """A clone of a project, with its state in Postgres."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.layout = Layout(root)

    def git(self, *words: str) -> str:
        command = ["git", *USER, *words]
        return subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, number: int) -> str:
        """Commit a page, and return the commit."""
        page = self.root / "wiki" / "global" / f"page{number}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"---\nsummary: Page {number}.\n---\n# Page {number}\n")
        self.git("add", "-A")
        self.git("commit", "-qm", f"page {number}")
        return self.git("rev-parse", "HEAD")

    def clone(self, name: str, *options: str) -> Clone:
        place = self.root.parent / name
        self.git("clone", "-q", *options, self.root.as_uri(), str(place))
        return Clone(place)

    def publish(self, commit: str = "HEAD", *, force: bool = False) -> Publication:
        self.git("checkout", "-q", commit)
        return publish(self.layout, force=force)


@pytest.fixture
def clone(tmp_path: Path, shared_schema: SharedSchema, monkeypatch: pytest.MonkeyPatch) -> Clone:
    """A clone with one commit, of which nothing is published."""
    root = make_shop_project(tmp_path, monkeypatch)
    monkeypatch.setenv("KTX_STATE_URL", shared_schema.server.url())
    config = root / "ktx.yaml"
    config.write_text(config.read_text() + shared_schema.storage())
    (root / ".gitignore").write_text("*.sqlite\n.ktx\n")
    made = Clone(root)
    made.git("init", "-q", "-b", "main")
    made.commit(0)
    return made


def published(clone: Clone) -> str | None:
    found = published_snapshot(clone.layout)
    return None if found is None else found.commit


def test_only_a_commit_that_follows_the_published_one_replaces_it(clone: Clone) -> None:
    first = clone.git("rev-parse", "HEAD")
    second = clone.commit(1)
    clone.git("checkout", "-qb", "other", first)
    other = clone.commit(2)
    assert clone.publish(first).replaced is None
    assert clone.publish(second).replaced == first
    assert clone.publish(second).replaced == second
    for commit, reason in ((first, "is older than"), (other, "has a different history")):
        with pytest.raises(GitError, match=reason) as error:
            clone.publish(commit)
        assert "ktx mcp publish --force" in str(error.value.hint)
        assert error.value.details == {"commit": commit, "published": second}
        assert published(clone) == second
    done = clone.publish(first, force=True)
    assert (done.snapshot.commit, done.replaced, published(clone)) == (first, second, first)


def test_a_commit_that_was_never_pushed_is_not_a_matter_of_a_shallow_clone(clone: Clone) -> None:
    complete = clone.clone("complete")
    complete.commit(1)
    unpushed = clone.commit(2)
    clone.publish("main")
    with pytest.raises(GitError, match="does not have commit") as error:
        complete.publish("main")
    hint = str(error.value.hint)
    assert "push that commit from " in hint and "git fetch;" in hint and "--unshallow" not in hint, hint
    assert "ktx mcp publish --force" in hint and published(clone) == unpushed
    complete.git("fetch", "-q")
    with pytest.raises(GitError, match="has a different history"):
        complete.publish("main")


def test_a_clone_without_the_history_cannot_tell_the_order(clone: Clone) -> None:
    first = clone.git("rev-parse", "HEAD")
    clone.git("tag", "first")
    clone.commit(1)
    newest = clone.commit(2)
    clone.publish(first)
    shallow = clone.clone("shallow", "--depth", "1", "--branch", "main")
    for preparation in (("status",), ("fetch", "-q", "--depth", "1", "origin", "tag", "first")):
        shallow.git(*preparation)
        with pytest.raises(GitError, match="its history is incomplete") as error:
            shallow.publish("main")
        assert "git fetch --unshallow" in str(error.value.hint)
        assert published(clone) == first
    shallow.git("fetch", "-q", "--unshallow")
    assert shallow.publish("main").snapshot.commit == newest


def test_a_slow_publish_does_not_replace_a_newer_one_that_ended_first(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = clone.git("rev-parse", "HEAD")
    slow = clone.clone("slow")
    newest = clone.commit(1)
    store = SharedFiles.put_tree

    def put_tree(files: SharedFiles, contents: Mapping[str, bytes]) -> str:
        monkeypatch.setattr(SharedFiles, "put_tree", store)
        assert clone.publish(newest).replaced is None
        return store(files, contents)

    monkeypatch.setattr(SharedFiles, "put_tree", put_tree)
    with pytest.raises(GitError):
        slow.publish(first)
    assert published(clone) == newest


def test_publishing_deletes_what_nobody_used(clone: Clone, shared_schema: SharedSchema) -> None:
    """Files from former snapshots, while those of the published one stay."""
    clone.publish()
    page = SharedFiles.name_of((clone.root / "wiki/global/page0.md").read_bytes())
    shared_schema.rows(f"INSERT INTO shared_files VALUES ('{'0' * 64}', 'x', '2020-01-01T00:00:00Z')")
    shared_schema.rows("UPDATE shared_files SET used = '2020-01-01T00:00:00Z'")
    clone.commit(1)
    clone.publish()
    names = {name for (name,) in shared_schema.rows("SELECT sha256 FROM shared_files")}
    assert "0" * 64 not in names and page in names


def test_a_server_deletes_the_copies_that_it_did_not_use(clone: Clone) -> None:
    clone.publish()
    unused = clone.layout.shared_files / "00" / ("0" * 64)
    unused.parent.mkdir(parents=True)
    unused.touch()
    os.utime(unused, (0, 0))
    with closing(SnapshotFollower(clone.layout, dict(os.environ))) as follower:
        follower.open()
    assert not unused.exists() and list(clone.layout.shared_files.glob("*/*"))


LOST = {
    "nothing was published": "DELETE FROM published",
    "all files": "DELETE FROM shared_files",
    "a page": "DELETE FROM shared_files WHERE position('# Page 0'::bytea IN content) > 0",
    "a damaged page": "UPDATE shared_files SET content = 'x' WHERE position('# Page 0'::bytea IN content) > 0",
}


@pytest.mark.parametrize("lost", LOST)
def test_a_missing_snapshot_has_to_be_published(lost: str, clone: Clone, shared_schema: SharedSchema) -> None:
    clone.publish()
    shared_schema.rows(LOST[lost])
    with closing(SnapshotFollower(clone.layout, dict(os.environ))) as follower:
        with pytest.raises(KtxError) as error:
            follower.open()
        assert str(error.value.hint) == "in a clone of the project: ktx mcp publish"
        clone.publish()
        assert (follower.open().layout.root / "wiki/global/page0.md").is_file()


def test_paths_out_of_the_project_start_at_the_project(clone: Clone) -> None:
    """A snapshot is a copy elsewhere, but its databases are those of the project."""
    (clone.root / "shop.sqlite").rename(clone.root.parent / "shop.sqlite")
    config = clone.root / "ktx.yaml"
    config.write_text(config.read_text().replace("path: shop.sqlite", "path: ../shop.sqlite"))
    clone.commit(1)
    clone.publish()
    with closing(SnapshotFollower(clone.layout, dict(os.environ))) as follower:
        project = follower.open()
        place = project.layout.root
        connector, _ = open_connection(project.config(), "shop", project_dir=place, environ=os.environ)
        with closing(connector):
            assert connector.query("SELECT count(*) FROM customers", max_rows=1).rows == ((0,),)


def test_a_snapshot_stays_open_until_the_last_call_that_uses_it_ends(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the call takes, and however many snapshots follow."""
    clone.publish()
    closed: list[ServedProject] = []
    close = ServedProject.close
    monkeypatch.setattr(ServedProject, "close", lambda self: (closed.append(self), close(self))[1])
    with closing(SnapshotFollower(clone.layout, dict(os.environ))) as follower:
        project = follower.open()
        copies = project.layout.root.parent
        with project.calls.use() as first, project.calls.use() as second:
            assert first and second
            for number in range(1, 6):
                clone.commit(number)
                clone.publish()
                follower.refresh()
                assert follower.problem is None
                assert (project.layout.root / "wiki" / "global" / "page0.md").is_file(), number
            assert len(closed) == 4 and project not in closed
        with project.calls.use() as again:
            follower.refresh()
            assert again and project not in closed, "a call that began before the snapshot is closed"
        follower.refresh()
        assert project in closed
        with project.calls.use() as late:
            assert not late
        assert len(list(copies.iterdir())) == KEPT_COPIES and not project.layout.root.exists()
        assert follower.open().layout.root.is_dir()


def test_a_commit_with_the_same_files_is_served_as_what_it_is(clone: Clone, caplog: pytest.LogCaptureFixture) -> None:
    first = clone.publish().snapshot
    with closing(SnapshotFollower(clone.layout, dict(os.environ))) as follower, caplog.at_level("INFO"):
        project = follower.open()
        assert follower.snapshot == first
        clone.git("commit", "-q", "--allow-empty", "-m", "nothing")
        second = clone.publish().snapshot
        for _ in range(2):
            follower.refresh()
        assert follower.snapshot == second != first and follower.open() is project
    lines = [each.getMessage() for each in caplog.records if "serving commit" in each.getMessage()]
    assert [each.split()[2].rstrip(",") for each in lines] == [first.commit, second.commit]


def test_settings_that_change_while_a_copy_is_made_are_not_those_of_the_copy(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, a server would have the settings in between whenever the first ones are in the file again."""
    clone.publish()
    settings = clone.layout.config.read_text()
    tree = SharedFiles.tree

    def change(files: SharedFiles, name: str) -> Mapping[str, str]:
        monkeypatch.setattr(SharedFiles, "tree", tree)
        clone.layout.config.write_text(settings + "mcp: {user_attributes: {region: EU}}\n")
        return tree(files, name)

    monkeypatch.setattr(SharedFiles, "tree", change)
    with closing(SnapshotFollower(clone.layout, dict(os.environ))) as follower:
        assert not follower.open().config().mcp.user_attributes
        assert follower.open().config().mcp.user_attributes == {"region": "EU"}
        clone.layout.config.write_text(settings)
        assert not follower.open().config().mcp.user_attributes


def test_a_replica_of_a_root_with_mounts_is_refused(clone: Clone) -> None:
    settings = clone.layout.config.read_text()
    clone.publish()
    with closing(SnapshotFollower(clone.layout, dict(os.environ))) as follower:
        project = follower.open()
        for mount in ("domains/sales", "../sales"):
            (clone.root / mount).mkdir(parents=True)
            (clone.root / mount / "ktx.yaml").write_text("connections: {}\n")
            clone.layout.config.write_text(settings + f"mounts: {{sales: {mount}}}\n")
            with pytest.raises(ConfigError, match="mounts others: sales") as error:
                follower.open()
            assert "--replica" in str(error.value.hint)
        clone.layout.config.write_text(settings)
        assert follower.open() is project, "the one that was served all the time"


def test_what_mounts_are_not_part_of_is_said(clone: Clone) -> None:
    clone.layout.config.write_text(clone.layout.config.read_text() + "mounts: {sales: domains/sales}\n")
    clone.commit(1)
    said: list[object] = []
    publish(clone.layout, emit=said.append)
    assert [each.message for each in said if isinstance(each, Notice)] == [
        "mounted projects are not part of the snapshot: sales"
    ]
