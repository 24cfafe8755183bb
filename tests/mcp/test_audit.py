"""The audit log as a chain: no line can be changed, removed or added in between without `--verify` naming it."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.jobs.evolve.audit import audited
from ktx_cli.jobs.serve.audit import NOTHING, ChainCheck, ChainedFile, audit_lines, check_chain, line_hash, line_text
from ktx_cli.mcp import audit
from ktx_cli.mcp.audit import QUERIES, AuditLog, Refusals
from ktx_cli.mcp.tools import TOOLS
from ktx_cli.project.layout import Layout
from ktx_cli.runs import KEPT_FILES
from tests.mcp.wire import ktx, made


def written(folder: Path, count: int, **bounds: int) -> Layout:
    layout = Layout(folder)
    store = ChainedFile(layout.mcp_audit, **bounds)
    for number in range(count):
        store.append({"at": f"2026-01-01T00:00:{number % 60:02}.000Z", "tool": "sl_query", "number": number})
    store.close()
    return layout


def lines_of(layout: Layout) -> list[bytes]:
    return layout.mcp_audit.read_bytes().splitlines(keepends=True)


def test_each_line_has_the_hash_of_the_one_before(tmp_path: Path) -> None:
    layout = written(tmp_path, 3)
    first, second, third = map(json.loads, lines_of(layout))
    assert first["prev"] == NOTHING and [each["seq"] for each in (first, second, third)] == [1, 2, 3]
    assert (second["prev"], third["prev"]) == (first["hash"], second["hash"])
    assert check_chain(layout) == ChainCheck(3, 0, 1, 3, third["hash"])
    assert layout.mcp_audit.stat().st_mode & 0o777 == 0o600


def changed(line: bytes, **facts: Any) -> bytes:
    return json.dumps({**json.loads(line), **facts}).encode() + b"\n"


Lines = list[bytes]


def without_chain(line: bytes, *names: str) -> bytes:
    facts = json.loads(line)
    return (
        json.dumps({key: facts[key] for key in facts if key not in (names or ("seq", "prev", "hash"))}).encode() + b"\n"
    )


def forged(line: bytes) -> bytes:
    facts = {**json.loads(line), "tool": "other"}
    return line_text({**facts, "hash": line_hash(facts)})


ATTACKS: dict[str, tuple[Callable[[Lines], Lines], int | str]] = {
    "a word changed": (lambda it: [*it[:2], it[2].replace(b"sl_query", b"sl_quiry"), *it[3:]], 3),
    "a line removed": (lambda it: [*it[:2], *it[3:]], 3),
    "the first line removed": (lambda it: it[1:], 1),
    "two lines swapped": (lambda it: [it[0], it[2], it[1], *it[3:]], 2),
    "a line repeated": (lambda it: [it[0], it[0], *it[1:]], 2),
    "a line added without a hash": (lambda it: [it[0], b'{"tool": "x"}\n', *it[1:]], 2),
    "a number changed": (lambda it: [it[0], changed(it[1], seq=9), *it[2:]], 2),
    "a hash removed": (lambda it: [it[0], changed(it[1], hash=None), *it[2:]], 2),
    "a blank line": (lambda it: [it[0], b"\n", *it[1:]], 2),
    "half a line": (lambda it: [it[0], it[1][:-20]], 2),
    "another value's type": (lambda it: [changed(it[0], seq="1"), *it[1:]], 1),
    "the last line removed": (lambda it: it[:-1], "the end"),
    "the chain removed": (lambda it: [without_chain(each) for each in it], "the end"),
    "the beginning taken out of the chain": (lambda it: [*map(without_chain, it[:2]), *it[2:]], 3),
    "the hash removed": (lambda it: [without_chain(it[0], "hash"), *it[1:]], 1),
    "another end with right hashes": (lambda it: [*it[:5], forged(it[5])], 6),
    "a duplicate key": (lambda it: [it[0].replace(b"{", b'{"tool": "other", ', 1), *it[1:]], 1),
}


@pytest.mark.table("name", list(ATTACKS))
def test_a_changed_log_is_noticed(tmp_path: Path, name: str) -> None:
    attack, place = ATTACKS[name]
    folder = tmp_path / name.replace(" ", "-")
    layout = written(folder, 6)
    layout.mcp_audit.write_bytes(b"".join(attack(lines_of(layout))))
    found = check_chain(layout)
    assert found.broken == (place if isinstance(place, str) else f"mcp-audit.jsonl:{place}"), found


def test_lines_of_an_older_version_come_first(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.mcp_audit.parent.mkdir(parents=True)
    layout.mcp_audit.write_text('{"at": "2025-01-01", "tool": "x"}\n' * 2)
    written(tmp_path, 2)
    found = check_chain(layout)
    assert (found.broken, found.unchained, found.lines) == (None, 2, 2)
    lines = lines_of(layout)
    layout.mcp_audit.write_bytes(b"".join([*lines[:2], lines[3]]))
    assert check_chain(layout).broken == "mcp-audit.jsonl:3"


def test_the_chain_goes_on_in_the_next_file(tmp_path: Path) -> None:
    layout = written(tmp_path, 60, largest=2_000)
    names = {each.name for each in layout.mcp_audit.parent.iterdir()}
    assert names == {
        "mcp-audit.jsonl",
        "mcp-audit.jsonl.lock",
        *(f"mcp-audit.jsonl.{n}" for n in range(1, KEPT_FILES + 1)),
    }
    found = check_chain(layout, largest=2_000)
    assert found.broken is None and found.last == 60 and found.first == 61 - found.lines > 1
    numbers = [each["number"] for each in audit_lines(layout)]
    assert numbers == list(range(60 - len(numbers), 60))
    layout.mcp_audit.with_name("mcp-audit.jsonl.2").unlink()
    assert check_chain(layout).broken == "mcp-audit.jsonl.3:1", "files are missing that were not rotated away"


def test_the_beginning_of_the_oldest_file_removed(tmp_path: Path) -> None:
    layout = written(tmp_path, 60, largest=2_000)
    oldest = layout.mcp_audit.with_name(f"mcp-audit.jsonl.{KEPT_FILES}")
    oldest.write_bytes(b"".join(oldest.read_bytes().splitlines(keepends=True)[2:]))
    assert check_chain(layout, largest=2_000).broken == f"{oldest.name}:1"


def test_a_line_whose_hash_somebody_noted(tmp_path: Path) -> None:
    layout = written(tmp_path, 6)
    hashes = [json.loads(each)["hash"] for each in lines_of(layout)]
    assert all(check_chain(layout, since).broken is None for since in (NOTHING, *hashes))
    layout.mcp_audit.unlink()
    layout.mcp_audit.with_name("mcp-audit.jsonl.lock").unlink()
    written(tmp_path, 5)
    for again, since in zip(lines_of(layout), hashes, strict=False):
        assert json.loads(again)["hash"] == since, "the same lines"
    assert check_chain(layout).broken is None, "a chain without a key does not show that it was written anew"
    assert check_chain(layout, hashes[4]).broken is None and check_chain(layout, hashes[5]).broken == "the end"


def test_the_oldest_file_removed(tmp_path: Path) -> None:
    layout = written(tmp_path, 20, largest=2_000)
    oldest = min(layout.mcp_audit.parent.glob("mcp-audit.jsonl.[0-9]"), key=lambda it: -int(it.suffix[1:]))
    assert json.loads(oldest.read_bytes().splitlines()[0])["seq"] == 1
    oldest.unlink()
    assert check_chain(layout).reason == "lines before it are missing"


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_lines_removed_while_a_server_runs(tmp_path: Path, kept: int) -> None:
    layout = Layout(tmp_path)
    store = ChainedFile(layout.mcp_audit)
    for number in range(3):
        store.append({"number": number})
    layout.mcp_audit.write_bytes(b"".join(lines_of(layout)[:kept]))
    store.append({"number": 3})
    assert check_chain(layout).broken == f"mcp-audit.jsonl:{kept + 1}"


def test_a_check_waits_for_a_line_in_progress(tmp_path: Path) -> None:
    layout = written(tmp_path, 2)
    store = ChainedFile(layout.mcp_audit)
    with ThreadPoolExecutor(1) as pool, store._locked():
        whole = layout.mcp_audit.read_bytes()
        layout.mcp_audit.write_bytes(whole + b'{"half')
        checking = pool.submit(check_chain, layout)
        with pytest.raises(TimeoutError):
            checking.result(timeout=0.2)
        layout.mcp_audit.write_bytes(whole)
    assert checking.result().broken is None


def append_many(path: Path, name: str) -> None:
    store = ChainedFile(path, largest=20_000)
    for number in range(50):
        store.append({"by": name, "number": number, "words": "x" * (number % 7 * 50)})
    os._exit(0)


def test_several_processes_append_to_one_chain(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.mcp_audit.parent.mkdir(parents=True)
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=append_many, args=(layout.mcp_audit, f"p{number}")) for number in range(4)]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
        assert each.exitcode == 0
    found = check_chain(layout, largest=20_000)
    assert (found.broken, found.last) == (None, 200)
    by = {name: [each["number"] for each in audit_lines(layout) if each["by"] == name] for name in ("p0", "p3")}
    assert all(numbers == sorted(numbers) for numbers in by.values())


def test_half_a_line_of_a_killed_writer_is_cut_off(tmp_path: Path) -> None:
    layout = written(tmp_path, 2)
    with layout.mcp_audit.open("ab") as stream:
        stream.write(b'{"tool": "half')
    written(tmp_path, 1)
    assert (check_chain(layout).broken, check_chain(layout).last) == (None, 3)
    long = ChainedFile(layout.mcp_audit)
    long.append({"words": "x" * 600_000})
    ChainedFile(layout.mcp_audit).append({"after": "a long line"})
    assert (check_chain(layout).broken, check_chain(layout).last) == (None, 5)


def test_another_store_takes_the_lines(tmp_path: Path) -> None:
    class Shared:
        def __init__(self) -> None:
            self.lines: list[Any] = []

        def append(self, entry: Any) -> None:
            self.lines.append(entry)

        def close(self) -> None:
            self.lines.append("closed")

    store = Shared()
    log = AuditLog(Layout(tmp_path), "http", store=store)
    log.note({"tool": "sl_query", "outcome": "ok"})
    log.close()
    assert store.lines[0]["tool"] == "sl_query" and store.lines[-1] == "closed"
    assert not Layout(tmp_path).mcp_audit.exists()


class Failing:
    """A store that can be out of order."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem
        self.lines: list[dict[str, Any]] = []
        self.tried = threading.Event()
        self.released = threading.Event()

    def append(self, entry: Any) -> None:
        self.tried.set()
        if self.problem is not None and not isinstance(self.problem, TimeoutError):
            raise self.problem
        if self.problem is not None:
            assert self.released.wait(30)
            raise self.problem
        self.lines.append(dict(entry))

    def close(self) -> None:
        pass


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_lines_wait_for_a_log_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "RETRY_SECONDS", 0.01)
    store = Failing(OSError(errno.ENOSPC, "full"))
    log = AuditLog(Layout(tmp_path), "http", store=store)
    for number in range(3):
        log.note({"number": number})
    until(lambda: log.problem == os.strerror(errno.ENOSPC))
    store.problem = None
    until(lambda: log.problem is None)
    assert [each["number"] for each in store.lines] == [0, 1, 2]
    log.close()


def test_the_chain_says_how_many_lines_were_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(audit, "WAITING", 2)
    store = Failing(OSError(errno.ENOSPC, "full"))
    log = AuditLog(Layout(tmp_path), "http", store=store)
    for number in range(7):
        log.note({"number": number})
    until(lambda: (len(log._waiting), log._lost) == (2, 5))
    assert log.problem is not None
    store.problem = None
    until(lambda: log.problem is None)
    log.note({"number": 7})
    log.close()
    assert [each.get("number", each.get("lost")) for each in store.lines] == [0, 1, 5, 7]
    lost = store.lines[2]
    assert store.lines[1]["at"] <= lost["since"] <= lost["at"] and lost["reason"] == os.strerror(errno.ENOSPC)


def test_a_line_that_cannot_be_written_is_lost_alone(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    log = AuditLog(layout, "http")
    endless: list[Any] = []
    endless.append(endless)
    for facts in ({"number": 0}, {"number": endless}, {"number": 2}):
        log.note(facts)
    log.close()
    assert sorted(each.get("number", each.get("lost")) for each in audit_lines(layout)) == [0, 1, 2]
    assert check_chain(layout).broken is None


def test_the_next_server_says_what_a_server_that_ended_lost(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    store = Failing(TimeoutError())
    log = AuditLog(layout, "http", store=store)
    log.note({"number": 0})
    assert store.tried.wait(20)
    log.note({"number": 1})
    log.close(0.05)
    store.released.set()
    following = AuditLog(layout, "http")
    following.note({"number": 2})
    following.close()
    assert [each.get("number", each.get("lost")) for each in audit_lines(layout)] == [2, 2]
    AuditLog(layout, "http").close()
    assert {each.name for each in layout.mcp_audit.parent.iterdir()} == {"mcp-audit.jsonl", "mcp-audit.jsonl.lock"}


def test_refusals_of_unknown_senders_cannot_fill_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(audit, "monotonic", lambda: clock[0])
    refusals = Refusals(at_once=3, seconds=60)
    reasons = [{"refused": reason, "status": 401} for reason in ("no_token", "token")]
    assert [refusals.admit(reasons[number % 2]) for number in range(1_001)] == [True] * 3 + [False] * 998
    assert refusals.due() == []
    clock[0] = 61
    (due,) = refusals.due()
    assert (due["refused"], due["count"]) == ("token", 499)
    assert [each["count"] for each in refusals.due(at_end=True)] == [499] and not refusals.waiting
    clock[0] = 3_600
    assert refusals.admit(reasons[0]), "a quiet time makes room"

    layout = Layout(tmp_path)
    log = AuditLog(layout, "http", refusals=Refusals(at_once=2))
    for _ in range(100):
        log.note_refusal({**reasons[0], "path": "/x"})
    log.note_refusal({**reasons[0], "issuer": "i", "subject": "ada"})
    log.close()
    lines = list(audit_lines(layout))
    assert [(each.get("subject"), each.get("count")) for each in lines] == [
        (None, None),
        (None, None),
        ("ada", None),
        (None, 98),
    ]


def test_the_command_names_the_broken_line(tmp_path: Path) -> None:
    made(tmp_path)
    layout = written(tmp_path, 4)
    good = ktx("mcp", "logs", "--audit", "--verify", "--json", folder=tmp_path)
    assert good.returncode == 0 and json.loads(good.stdout)["data"]["lines"] == 4
    last = json.loads(good.stdout)["data"]["hash"]
    shown = ktx("mcp", "logs", "--audit", "--verify", folder=tmp_path)
    assert f"--verify --since {last}" in shown.stderr
    assert "No line of the audit log was changed or removed: 4 lines (1 to 4)" in " ".join(shown.stderr.split())
    assert f"the chain ends with {last}." in " ".join(shown.stderr.split()) and "No line" not in shown.stdout
    assert ktx("mcp", "logs", "--audit", "--verify", "--quiet", folder=tmp_path).stderr == ""
    for since, code in ((last, 0), ("0" * 63 + "1", 1)):
        done = ktx("mcp", "logs", "--audit", "--verify", "--since", since, folder=tmp_path)
        assert done.returncode == code, done.stderr
    layout.mcp_audit.write_bytes(layout.mcp_audit.read_bytes().replace(b'"number": 2', b'"number": 7'))
    bad = ktx("mcp", "logs", "--audit", "--verify", folder=tmp_path)
    assert bad.returncode == 1 and "mcp-audit.jsonl:3" in bad.stderr and "No line" not in bad.stderr, bad.stderr
    for words in (["--verify"], ["--audit", "--since", NOTHING], ["--audit", "--verify", "--since", "12"]):
        assert ktx("mcp", "logs", *words, folder=tmp_path).returncode == 2, words


def test_the_log_is_still_what_ktx_evolve_reads(tmp_path: Path) -> None:
    store = ChainedFile(Layout(tmp_path).mcp_audit)
    store.append(
        {"at": "2026-01-01T00:00:00.000Z", "method": "tools/call", "tool": "sl_query", "outcome": "ok", "session": "a"}
    )
    assert [each.tool for each in audited(Layout(tmp_path))] == ["sl_query"]


def test_the_tools_that_count_as_queries() -> None:
    assert {each.name for each in TOOLS if each.queries} == QUERIES
