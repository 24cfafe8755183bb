"""What the model answered survives a killed process, and is found by kind and hash."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktx_cli.core.errors import StorageError
from ktx_cli.project import state
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import KEPT_RUNS, StateEnrichmentStore, open_enrichment_store


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def test_a_value_is_found_by_kind_and_key_and_the_last_one_counts(layout: Layout) -> None:
    value = {"text": "Größe \udc80", "columns": {"a": None}}
    with open_enrichment_store(layout) as store:
        store.put("description", "h1", {"text": "old"})
        store.put("description", "h1", value)
        store.put("joins", "h1", [])
    with open_enrichment_store(layout) as store:
        assert store.get("description", "h1") == value
        assert store.get("joins", "h1") == []
        assert store.get("joins", "h2") is None


def test_many_values_are_found_by_their_keys(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "READ_AT_ONCE", 2)
    with open_enrichment_store(layout) as store:
        for number in range(5):
            store.put("description", f"h{number}", number)
        store.put("joins", "h5", 5)
        wanted = ["h4", "h0", "h0", "h5", "none"]
        assert store.get_many("description", wanted) == {"h0": 0, "h4": 4}
        assert store.get_many("description", []) == {}


KILLED = """
import os, signal, sys
from pathlib import Path
from ktx_cli.project.state import KEPT_RUNS, StateEnrichmentStore, open_enrichment_store
from ktx_cli.project.layout import Layout
with open_enrichment_store(Layout(Path(sys.argv[1]))) as store:
    for number in range(5):
        store.put("description", f"h{number}", {"text": str(number)})
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_put_before_a_kill_is_there_after_it(layout: Layout) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(layout.root)])
    assert done.returncode == -signal.SIGKILL
    with open_enrichment_store(layout) as store:
        assert [store.get("description", f"h{number}") for number in range(6)] == [
            *({"text": str(number)} for number in range(5)),
            None,
        ]


def test_a_value_that_is_no_json_is_asked_for_anew(layout: Layout) -> None:
    with state.open_for_writing(layout) as database:
        database.execute("INSERT INTO enrichment VALUES ('joins', 'h', '{broken', 't')")
    with open_enrichment_store(layout) as store:
        assert store.get("joins", "h") is None


def test_a_database_from_before_gets_the_table(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(state, "MIGRATIONS", state.MIGRATIONS[:2])
        with state.open_for_writing(layout):
            pass
    with open_enrichment_store(layout) as store:
        store.put("joins", "h", [1])
        assert store.get("joins", "h") == [1]


def test_a_failing_database_is_a_storage_error(layout: Layout) -> None:
    with state.open_for_writing(layout) as database:
        database.execute("DROP TABLE enrichment")
    with open_enrichment_store(layout) as store:
        with pytest.raises(StorageError, match="no such table"):
            store.get("joins", "h")
        with pytest.raises(StorageError, match="no such table"):
            store.put("joins", "h", 1)


def keys(store: StateEnrichmentStore, *names: str) -> list[str]:
    return [name for name in names if store.get("description", name) is not None]


@pytest.fixture
def store(layout: Layout) -> Iterator[StateEnrichmentStore]:
    """A store with the answers `a` and `b`."""
    with open_enrichment_store(layout) as opened:
        for name in ("a", "b"):
            opened.put("description", name, {"text": name})
        yield opened


A, B = ("description", "a"), ("description", "b")


def test_an_answer_nobody_uses_goes_after_so_many_runs(store: StateEnrichmentStore) -> None:
    assert [store.settle("shop", {A}, ["shop"]) for _ in range(KEPT_RUNS)] == [0] * KEPT_RUNS
    assert keys(store, "a", "b") == ["a", "b"]
    assert store.settle("shop", {A}, ["shop"]) == 1
    assert keys(store, "a", "b") == ["a"]


def test_an_answer_used_again_stays(store: StateEnrichmentStore) -> None:
    for number in range(3 * KEPT_RUNS):
        store.settle("shop", {A, B} if number % KEPT_RUNS == 0 else {A}, ["shop"])
    assert keys(store, "a", "b") == ["a", "b"]


def test_runs_of_one_connection_do_not_age_what_another_uses(store: StateEnrichmentStore) -> None:
    store.settle("shop", {A, B}, ["shop", "atelier"])
    dropped = [store.settle("atelier", {A}, ["shop", "atelier"]) for _ in range(2 * KEPT_RUNS)]
    assert dropped == [0] * (2 * KEPT_RUNS)
    dropped = [store.settle("atelier", {A}, ["atelier"]) for _ in range(KEPT_RUNS + 1)]
    assert dropped == [*[0] * KEPT_RUNS, 1], "the uses of a connection that is gone are forgotten"
    assert keys(store, "a", "b") == ["a"]


def test_what_a_killed_run_left_counts_from_the_next_run(store: StateEnrichmentStore) -> None:
    for _ in range(KEPT_RUNS):
        store.settle("shop", {A, B}, ["shop"])
    store.put("description", "left", {"text": "of a killed run"})
    assert [store.settle("shop", {A, B}, ["shop"]) for _ in range(KEPT_RUNS)] == [0] * KEPT_RUNS
    assert keys(store, "left") == ["left"]
    assert store.settle("shop", {A, B}, ["shop"]) == 1


def test_damaged_uses_cost_no_answer(store: StateEnrichmentStore) -> None:
    store.settle("shop", {A}, ["shop"])
    for damaged in ([], {"runs": "x", "last": []}, {"runs": 1, "last": [["a"]]}, {"runs": 99}):
        store.put("uses", "shop", damaged)
        assert store.settle("shop", {A}, ["shop"]) == 0
    assert keys(store, "a", "b") == ["a", "b"]


def test_settling_leaves_the_same_bytes_in_whatever_order_answers_were_used(layout: Layout, tmp_path: Path) -> None:
    def left(folder: Path, used: list[tuple[str, str]]) -> object:
        with open_enrichment_store(Layout(folder)) as opened:
            for kind, key in used:
                opened.put(kind, key, {})
            opened.settle("shop", used, ["shop"])
            return opened.get("uses", "shop")

    assert left(tmp_path / "one", [A, B]) == left(tmp_path / "two", [B, A])
    assert left(tmp_path / "one", [A, B]) == {"runs": 2, "last": [["description", "a", 2], ["description", "b", 2]]}


def test_a_failing_settlement_changes_nothing(
    layout: Layout, store: StateEnrichmentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.settle("shop", {A, B}, ["shop"])
    before = store.get("uses", "shop")

    def full(self: StateEnrichmentStore, kind: str, key: str, value: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch, pytest.raises(StorageError, match="full"):
        patch.setattr(StateEnrichmentStore, "put", full)
        store.settle("shop", {A}, ["shop"])
    assert (store.get("uses", "shop"), keys(store, "a", "b")) == (before, ["a", "b"])
