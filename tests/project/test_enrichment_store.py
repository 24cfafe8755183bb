"""What the model answered survives a killed process, and is found by kind and hash."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ktx_cli.core.errors import StorageError
from ktx_cli.project import state
from ktx_cli.project.enrichment_store import open_enrichment_store
from ktx_cli.project.layout import Layout


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


KILLED = """
import os, signal, sys
from pathlib import Path
from ktx_cli.project.enrichment_store import open_enrichment_store
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
