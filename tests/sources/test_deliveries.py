"""The committed states of raw files: read back as written, compared with what a source has now."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core.errors import ConfigError
from ktx_cli.documents.raw import Changes, RawFile, Snapshot
from ktx_cli.sources.deliveries import (
    Delivery,
    FileState,
    FileStatus,
    compare,
    delivery_path,
    parse_delivery,
    render_delivery,
)

digests = st.binary(max_size=2).map(lambda content: hashlib.sha256(content).hexdigest())
paths = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
states = st.builds(
    FileState,
    digests,
    st.sampled_from(FileStatus),
    st.lists(paths, max_size=2, unique=True).map(lambda p: tuple(sorted(p))),
)
manifests = st.builds(
    Delivery,
    st.dictionaries(paths, states, max_size=5),
    st.dictionaries(paths, st.dictionaries(paths, digests, min_size=1, max_size=2), max_size=2),
    st.sampled_from(["", "ab12"]),
    st.dictionaries(paths, st.lists(paths, min_size=1, max_size=2, unique=True).map(sorted).map(tuple), max_size=2),
)


def raw(path: str, content: str) -> RawFile:
    return RawFile(path, hashlib.sha256(content.encode()).hexdigest(), len(content), content.encode)


def snapshot(complete: bool = True, **files: str) -> Snapshot:
    return Snapshot({path: raw(path, content) for path, content in files.items()}, complete)


def state(content: str, status: FileStatus = FileStatus.DONE) -> FileState:
    return FileState(hashlib.sha256(content.encode()).hexdigest(), status)


@given(manifests)
def test_a_manifest_is_read_back_as_it_was_written(manifest: Delivery) -> None:
    text = render_delivery(manifest)
    assert parse_delivery(text, "m.yaml") == manifest
    assert render_delivery(parse_delivery(text, "m.yaml")) == text


def test_no_file_is_an_empty_manifest() -> None:
    assert parse_delivery(None, "m.yaml") == Delivery()


@pytest.mark.table(
    "text", ["[]", "version: 2", "version: 1\nfiles: [a]", "version: 1\nfiles: {a: {sha256: x, status: lost}}", "a: ["]
)
def test_what_is_no_manifest_says_where(text: str) -> None:
    with pytest.raises(ConfigError, match=r"m\.yaml") as caught:
        parse_delivery(text.encode(), "m.yaml")
    assert caught.value.hint


KNOWN = Delivery(
    {"a": state("1"), "b": state("1"), "c": state("1", FileStatus.FAILED), "d": state("1", FileStatus.SKIPPED)}
)


@pytest.mark.table(
    ("now", "found"),
    [
        (snapshot(a="1", b="1", c="1", d="1"), Changes(retried=("c",), unchanged=("a", "b", "d"))),
        (snapshot(a="2", b="1", c="2", d="2", e="1"), Changes(("e",), ("a", "c", "d"), (), ("b",))),
        (snapshot(a="1"), Changes(deleted=("b", "c", "d"), unchanged=("a",))),
        (snapshot(False, a="1"), Changes(unchanged=("a",))),
    ],
)
def test_what_changed(now: Snapshot, found: Changes) -> None:
    assert compare(KNOWN, now, model=True) == found
    assert found.touched == {*found.added, *found.modified, *found.retried}


def test_a_file_that_waits_is_to_be_read_once_there_is_a_model() -> None:
    manifest = Delivery({"a": state("1", FileStatus.WAITING)})
    assert compare(manifest, snapshot(a="1"), model=False) == Changes(unchanged=("a",))
    read = compare(manifest, snapshot(a="1"), model=True)
    assert (read, read.touched) == (Changes(unread=("a",)), {"a"})


def test_artifacts_name_the_files_they_came_of() -> None:
    both = FileState("0", artifacts=("wiki:a", "wiki:b"))
    manifest = Delivery({"y": both, "x": FileState("0", artifacts=("wiki:b",))})
    assert manifest.artifacts() == {"wiki:a": ("y",), "wiki:b": ("x", "y")}


def test_its_place_is_beside_the_other_raw_sources() -> None:
    assert delivery_path("shop", "dbt") == "raw-sources/shop/dbt/manifest.yaml"
