"""A question nobody waits for: what is under way is ended once, and nothing begins any more."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ktx_cli.core.errors import CancelledError
from ktx_cli.jobs.serve.ask import Stop, Watch
from ktx_cli.warehouses.port import QueryResult, Scope

ROW = QueryResult(("a",), ((1,),))


class Slow:
    """A connection whose statement lasts until it is interrupted."""

    dialect = "sqlite"

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.ended = threading.Event()
        self.interrupts = 0

    def query(self, sql: str, parameters: Any = (), *, max_rows: int = 1000) -> QueryResult:
        self.asked.set()
        if sql == "slow":
            assert self.ended.wait(60)
        return ROW

    def interrupt(self) -> None:
        self.interrupts += 1
        self.ended.set()

    def close(self) -> None:
        self.ended.set()


def watched(inner: Any, watch: Watch) -> Any:
    opener: Any = watch.opener(lambda *args, **options: (inner, Scope()))
    return opener(None, "shop", project_dir=None, environ={})[0]


def test_a_statement_under_way_is_ended_once_and_none_begins_after_it() -> None:
    inner, stop = Slow(), Stop()
    connector = watched(inner, Watch(stop))
    thread = threading.Thread(target=connector.query, args=("slow",))
    thread.start()
    assert inner.asked.wait(60)
    stop.set()
    stop.set()
    thread.join(60)
    assert not thread.is_alive() and inner.interrupts == 1
    with pytest.raises(CancelledError):
        connector.query("fast")


def test_what_is_over_is_not_ended_any_more() -> None:
    inner, stop = Slow(), Stop()
    assert watched(inner, Watch(stop)).query("fast") == ROW
    stop.set()
    assert inner.interrupts == 0


def test_a_connection_that_cannot_be_interrupted_is_let_go_on() -> None:
    class Plain:
        dialect = "sqlite"

        def query(self, sql: str, parameters: Any = (), *, max_rows: int = 1000) -> QueryResult:
            stop.set()
            return ROW

    stop = Stop()
    assert watched(Plain(), Watch(stop)).query("fast") == ROW


def test_no_connection_is_opened_for_nobody() -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(CancelledError):
        watched(Slow(), Watch(stop))
