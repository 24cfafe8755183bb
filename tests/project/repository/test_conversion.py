from __future__ import annotations

from typing import Any

import pytest

ORDERS = "semantic-layer/shop/orders.yaml"
ITEMS = "semantic-layer/shop/items.yaml"


@pytest.mark.parametrize(
    ("config", "attributes", "content", "stored", "on_disk"),
    [
        ({"core.autocrlf": "true"}, "", b"a\nb\n", b"a\nb\n", b"a\r\nb\r\n"),
        ({"core.autocrlf": "true", "core.safecrlf": "true"}, "", b"a\r\nb\n", b"a\nb\n", b"a\r\nb\r\n"),
        ({"core.autocrlf": "input"}, "", b"a\r\nb\n", b"a\nb\n", b"a\nb\n"),
        ({"core.autocrlf": "true"}, "*.yaml -text\n", b"a\r\nb\n", b"a\r\nb\n", b"a\r\nb\n"),
        ({}, "*.yaml text eol=crlf\n", b"a\nb\n", b"a\nb\n", b"a\r\nb\r\n"),
        ({}, "*.yaml text=auto eol=crlf\n", b"a\nb\n", b"a\nb\n", b"a\r\nb\r\n"),
        ({}, "*.yaml eol=crlf\n", b"a\nb\n", b"a\nb\n", b"a\r\nb\r\n"),
        ({"core.eol": "crlf"}, "*.yaml text=auto\n", b"a\nb\n", b"a\nb\n", b"a\r\nb\r\n"),
        ({}, "*.yaml text=auto\n", b"a\r\nb\n", b"a\nb\n", b"a\nb\n"),
        ({}, "", b"a\r\nb\n", b"a\r\nb\n", b"a\r\nb\n"),
        ({}, "*.yaml crlf\n", b"a\r\nb\n", b"a\nb\n", b"a\nb\n"),
        ({}, "*.yaml binary\n", b"a\r\n\0", b"a\r\n\0", b"a\r\n\0"),
        ({}, "*.yaml ident\n", b"$Id: x $\n", b"$Id$\n", None),
        ({}, "*.yaml text working-tree-encoding=UTF-16LE\n", b"a\nb\n", b"a\nb\n", "a\nb\n".encode("utf-16-le")),
        ({}, "*.yaml text eol=crlf working-tree-encoding=UTF-16LE\n", b"a\r\n", b"a\n", "a\r\n".encode("utf-16-le")),
        (
            {"filter.rot.clean": "tr a-z b-za", "filter.rot.smudge": "tr b-za a-z"},
            "*.yaml filter=rot\n",
            b"abc\n",
            b"bcd\n",
            b"abc\n",
        ),
        ({"filter.up.clean": "tr a-z A-Z"}, "*.yaml filter=up\n", b"abc\n", b"ABC\n", b"ABC\n"),
        ({}, "*.yaml filter=unknown\n", b"abc\n", b"abc\n", b"abc\n"),
    ],
)
def test_contents_are_stored_and_written_as_git_would(
    empty: Any, config: dict[str, str], attributes: str, content: bytes, stored: bytes, on_disk: bytes | None
) -> None:
    for name, value in config.items():
        empty.git("config", name, value)
    empty.write(".git/info/attributes", attributes)
    empty.write("start.txt", "start")
    empty.user_commit()
    path = "dir/new file.yaml"
    assert empty.commit({path: content}).committed == (path,)
    assert empty.show(path) == stored
    if on_disk is not None:
        assert empty.read(path) == on_disk
    empty.assert_clean()
    empty.git("rm", "-q", "--cached", path)
    empty.git("add", path)
    assert empty.status() == []
    assert empty.commit({path: content}).commit is None


def test_a_checkout_with_other_line_ends_is_clean_and_changed(work: Any) -> None:
    work.git("config", "core.autocrlf", "true")
    for path in (ORDERS, ITEMS):
        (work.root / path).unlink()
    work.git("checkout", "-q", "--", ".")
    assert work.read(ORDERS) == b"name: orders\r\n"
    assert work.commit({ORDERS: b"new\n", "fresh.yaml": b"f\n"}).committed == ("fresh.yaml", ORDERS)
    assert work.read(ORDERS) == b"new\r\n"
    work.assert_clean()
    work.write(ITEMS, "mine\r\n")
    assert [held.reason for held in work.commit({ITEMS: b"new\n"}).held] == ["modified"]
    assert work.commit({ITEMS: b"mine\n"}).committed == (ITEMS,)
    work.assert_clean()


def test_a_filter_that_must_work_and_does_not_is_an_error_and_nothing_happened(work: Any) -> None:
    work.git("config", "filter.broken.clean", "false")
    work.git("config", "filter.broken.required", "true")
    work.write(".git/info/attributes", "new.yaml filter=broken\n")
    head = work.head
    with pytest.raises(Exception, match="hash-object"):
        work.commit({"new.yaml": b"x\n"})
    assert work.head == head and work.leftovers() == []


@pytest.mark.parametrize("options", [("--cone",), ("--cone", "--sparse-index"), ("--no-cone",)])
def test_sparse_checkout(work: Any, options: tuple[str, ...]) -> None:
    work.write("wiki/a.md", "a\n")
    work.write("wiki/b.md", "b\n")
    work.user_commit()
    work.git("sparse-checkout", "set", *options, "semantic-layer")
    assert not (work.root / "wiki").exists()
    result = work.commit({"wiki/a.md": b"changed\n", "wiki/b.md": None, "wiki/new/c.md": b"c\n", ORDERS: b"o\n"})
    assert result.committed == (ORDERS, "wiki/a.md", "wiki/b.md", "wiki/new/c.md") and result.held == ()
    assert not (work.root / "wiki/a.md").exists() and work.read("wiki/new/c.md") == b"c\n"
    flags = {line.partition("\t")[2]: line[0] for line in work.index()}
    assert flags["wiki/a.md"] == "S" and "wiki/b.md" not in flags
    work.assert_clean()
    work.git("sparse-checkout", "disable")
    assert work.read("wiki/a.md") == b"changed\n" and work.read("wiki/b.md") is None
    work.assert_clean()


@pytest.mark.parametrize("options", [("--cone",), ("--cone", "--sparse-index"), ("--no-cone",)])
def test_an_edited_file_outside_a_sparse_checkout_is_held(work: Any, options: tuple[str, ...]) -> None:
    work.write("wiki/a.md", "a\n")
    work.user_commit()
    work.git("sparse-checkout", "set", *options, "semantic-layer")
    work.write("wiki/a.md", "mine\n")
    (held,) = work.commit({"wiki/a.md": b"changed\n"}).held
    assert held.path == "wiki/a.md" and held.reason in ("modified", "skip_worktree")  # which: by the version of git
    assert work.read("wiki/a.md") == b"mine\n" and work.show("wiki/a.md") == b"a\n"


def test_mode_bits_that_git_ignores(work: Any) -> None:
    work.git("config", "core.fileMode", "false")
    (work.root / ORDERS).chmod(0o755)
    untracked = work.write("new.yaml", "n\n")
    untracked.chmod(0o755)
    assert work.commit({ORDERS: b"n\n", "new.yaml": b"n\n"}).committed == ("new.yaml", ORDERS)
    assert work.git("ls-tree", "HEAD", "new.yaml").startswith("100644")
    work.assert_clean()
