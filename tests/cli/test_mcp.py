"""`ktx mcp`: servers that are really started, watched and stopped; whose process is whose."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.jobs.serve.state import ServedFolder, ServerSettings, ServerState, read_server_state, write_server_state
from ktx_cli.project.layout import Layout
from ktx_cli.project.lock import process_start
from tests.cli.conftest import KTX, Run
from tests.mcp.wire import Wire, ktx, made, started
from tests.worlds.forks import INSTALLED, Forks

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "shop"
    place.mkdir()
    made(place)
    return place


@pytest.fixture
def stopped(folder: Path) -> Iterator[Path]:
    """A project whose server, if a test starts one, is stopped in the end."""
    yield folder
    assert ktx("mcp", "stop", folder=folder).returncode == 0


def start(folder: Path, *words: str, **environ: str) -> Any:
    return json.loads(ktx("mcp", "start", "--json", *words, folder=folder, **environ).stdout)


def status(folder: Path) -> Any:
    return json.loads(ktx("mcp", "status", "--json", folder=folder).stdout)["data"]


def files(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_a_server_is_started_watched_and_stopped(stopped: Path) -> None:
    assert status(stopped) == {"status": "stopped"}
    data = start(stopped, "--port", "0", "--read-only", "--privacy")["data"]
    assert data["outcome"] == "started"
    wire = Wire(int(data["url"].split(":")[2].split("/")[0]))
    assert wire.initialize().status == 200
    found = status(stopped)
    assert found["status"] == "running" and found["sessions"] == 1
    assert found["read_only"] and found["privacy"] and not found["token_required"]
    assert found["projects"] == [{"name": "", "folder": str(stopped), "url": found["url"]}]
    mode = (stopped / ".ktx" / "mcp.json").stat().st_mode & 0o777
    assert mode == 0o600
    again = start(stopped, "--port", "0", "--read-only", "--privacy")
    assert again["ok"] and again["data"]["outcome"] == "already running" and again["data"]["pid"] == found["pid"]
    other = start(stopped, "--port", "0")
    assert other["error"]["code"] == "busy" and other["error"]["details"]["differs"] == ["read_only", "privacy"]
    assert "to run both, use another project folder" in other["error"]["hint"]
    done = ktx("mcp", "stop", folder=stopped)
    assert (done.returncode, done.stdout) == (0, f"stopped (pid {found['pid']})\n")
    assert process_start(found["pid"]) is None
    assert status(stopped) == {"status": "stopped"}
    assert not (stopped / ".ktx" / "mcp.json").exists()


def test_a_server_lists_the_tools_of_its_profile_and_answers_others(stopped: Path) -> None:
    data = start(stopped, "--port", "0", "--profile", "admin")["data"]
    assert data["profile"] == status(stopped)["profile"] == "admin"
    wire = Wire(int(data["url"].split(":")[2].split("/")[0]))
    wire.initialize()
    assert "sl_list" in {each["name"] for each in wire.tools()}
    other = start(stopped, "--port", "0")["error"]
    assert other["code"] == "busy" and "profile" in other["message"]
    assert ktx("mcp", "stop", folder=stopped).returncode == 0
    data = start(stopped, "--port", "0")["data"]
    wire = Wire(int(data["url"].split(":")[2].split("/")[0]))
    wire.initialize()
    assert len(wire.tools()) <= 7 and "sl_list" not in {each["name"] for each in wire.tools()}
    assert wire.call("sl_list", {})[:2] == (200, None)


def test_a_state_of_an_earlier_version_names_no_profile() -> None:
    data = ServerSettings((ServedFolder("", "/p"),)).to_json()
    assert ServerSettings.from_json(data) == ServerSettings((ServedFolder("", "/p"),))
    assert data.pop("profile") == "default" and ServerSettings.from_json(data).profile == "default"


def test_nothing_to_stop_is_no_error(folder: Path, ktx: Run) -> None:
    before = files(folder)
    answer = ktx("mcp", "stop", "--project-dir", str(folder))
    assert (answer.code, answer.out) == (0, "no server was running\n")
    assert files(folder) == before


def test_a_taken_port_is_named(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        document = start(folder, "--port", str(port))
    assert document["error"]["code"] == "busy"
    assert f"port {port} of 127.0.0.1 is in use" in document["error"]["message"]
    assert document["error"]["hint"] == "ktx mcp start --port 0"
    assert status(folder) == {"status": "stopped"}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--host", "0.0.0.0"], 2, "the server needs a token there"),
        (["--token", "secret"], 2, "is visible to all users of this machine"),
        (["--token-file", "absent"], 2, "which does not exist"),
        (["--host", "no such host", "--token-file", "token"], 2, "not a host of this machine"),
        (["--allowed-origin", "evil.example"], 2, "is not a valid origin"),
        (["--allowed-host", "a b"], 2, "is not a valid host name"),
        (["other"], 2, "`other` requires --projects"),
        (["--projects", "absent"], 3, "contains no ktx.yaml"),
        (["--projects", ".", "."], 2, "listed twice"),
    ],
)
def test_what_keeps_a_server_from_starting(folder: Path, words: list[str], code: int, message: str) -> None:
    (folder / "token").write_text("a-token-that-is-long-enough\n")
    done = ktx("mcp", "start", "--port", "0", *words, folder=folder)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert message in done.stderr
    assert "hint: " in done.stderr
    assert not (folder / ".ktx" / "mcp.json").exists()


def test_a_short_token_is_not_enough_off_loopback(folder: Path) -> None:
    done = ktx("mcp", "start", "--port", "0", "--host", "0.0.0.0", folder=folder, KTX_MCP_TOKEN="short")
    assert done.returncode == 2 and "shorter than 16" in done.stderr


def test_off_loopback_with_a_token(stopped: Path) -> None:
    token = "a-token-that-is-long-enough"
    (stopped / "token").write_text(token + "\n")
    words = ("--port", "0", "--host", "0.0.0.0", "--token-file", "token")
    data = start(stopped, *words, **{INSTALLED: "1"})["data"]
    assert data["token_required"]
    port = int(data["url"].split(":")[2].split("/")[0])
    assert Wire(port).initialize().status == 401
    assert Wire(port, token=token).initialize().status == 200
    assert Wire(port, token=token).initialize(Host="ktx.example.com").status == 403
    state = (stopped / ".ktx" / "mcp.json").read_text()
    command = Path(f"/proc/{data['pid']}/cmdline").read_text()
    assert token not in state + command


def test_a_server_that_accepts_every_access_token_of_its_issuer_warns(stopped: Path) -> None:
    config, issuer = (
        stopped / "ktx.yaml",
        "{issuer: 'https://id.example.com', resource: 'https://ktx.example.com/mcp'%s}",
    )
    plain = config.read_text()
    for scopes, expected in (("", ["scopes"]), (", scopes: ['ktx:read']", [])):
        config.write_text(f"{plain}serving:\n  identity: {issuer % scopes}\n")
        done = start(stopped, "--port", "0")
        assert done["ok"] and [each["code"] for each in done["warnings"]] == expected
        assert all("any access token that the issuer grants" in each["message"] for each in done["warnings"])
        assert ktx("mcp", "stop", folder=stopped).returncode == 0


def test_several_projects_share_nothing(tmp_path: Path) -> None:
    for parent in ("a", "b"):
        (tmp_path / parent / "shop").mkdir(parents=True)
        made(tmp_path / parent / "shop")
    one, two = tmp_path / "a" / "shop", tmp_path / "b" / "shop"
    (two / "wiki" / "global" / "refunds.md").write_text("---\nsummary: Of two\n---\n\nOnly of two.\n")
    with started(one, "--projects", str(one), str(two)) as first:
        second = Wire(first.port, "/mcp/shop-2")
        first.path = "/mcp/shop"
        assert first.initialize().status == second.initialize().status == 200
        assert "Only of two" not in first.call("wiki_read", {"key": "refunds"})[2]
        assert "Only of two" in second.call("wiki_read", {"key": "refunds"})[2]
        stolen = Wire(first.port, "/mcp/shop", session=second.session)
        assert stolen.ask("tools/list", {}).status == 404
        assert status(two)["pid"] == status(one)["pid"]
        assert [each["name"] for each in status(two)["projects"]] == ["shop", "shop-2"]
    for folder in (one, two):
        lines = (folder / ".ktx" / "logs" / "mcp-audit.jsonl").read_text().splitlines()
        assert len([line for line in lines if "wiki_read" in line]) == 1
        assert not (folder / ".ktx" / "mcp.json").exists()


def test_a_killed_server_is_stale(stopped: Path) -> None:
    pid = start(stopped, "--port", "0")["data"]["pid"]
    os.kill(pid, signal.SIGKILL)
    while process_start(pid) is not None:
        threading.Event().wait(0.02)
    found = status(stopped)
    assert (found["status"], found["problem"]) == ("stale", f"its process {pid} has ended")
    assert start(stopped, "--port", "0")["data"]["outcome"] == "started"
    assert status(stopped)["status"] == "running"


def some_state(folder: Path, **changes: Any) -> ServerState:
    settings = ServerSettings((ServedFolder("", str(folder)),))
    state = ServerState("0123", settings, 9, token_required=False)
    fields = {name: getattr(state, name) for name in state.__slots__}
    return ServerState(**{**fields, **changes})


@pytest.mark.parametrize("changes", [{"process_start": "1"}, {"host_identity": "elsewhere"}, {"process_start": ""}])
def test_a_process_with_the_same_number_is_left_alone(folder: Path, ktx: Run, changes: dict[str, str]) -> None:
    with subprocess.Popen(["sleep", "600"]) as other:
        change = {"process_start": process_start(other.pid) or "", **changes}
        write_server_state(Layout(folder), some_state(folder, pid=other.pid, **change))
        answer = ktx("mcp", "status", "--json", "--project-dir", str(folder))
        assert answer.data["status"] == "stale"
        answer = ktx("mcp", "stop", "--json", "--project-dir", str(folder))
        assert answer.data["outcome"] == "stale"
        assert other.poll() is None
        other.kill()
    assert read_server_state(Layout(folder)) is None


def test_the_address_of_a_server_that_is_not_here_is_not_asked(folder: Path, ktx: Run) -> None:
    health = b'{"id": "0123", "status": "ok"}'
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(health), health)
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.settimeout(60)

        def answer_once() -> None:
            with contextlib.suppress(OSError), elsewhere.accept()[0] as client:  # nobody comes, as it should be
                client.recv(65_536)
                client.sendall(answer)

        threading.Thread(target=answer_once, daemon=True).start()
        planted = some_state(folder, port=elsewhere.getsockname()[1], host_identity="elsewhere")
        write_server_state(Layout(folder), planted)
        assert ktx("mcp", "status", "--json", "--project-dir", str(folder)).data["status"] == "stale"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"settings": {}}', "null", "[" * 10_000])
def test_a_state_that_is_none(folder: Path, ktx: Run, text: str) -> None:
    (folder / ".ktx").mkdir()
    (folder / ".ktx" / "mcp.json").write_text(text)
    assert ktx("mcp", "status", "--json", "--project-dir", str(folder)).data["status"] == "stale"
    assert ktx("mcp", "stop", "--project-dir", str(folder)).code == 0
    assert ktx("mcp", "status", "--json", "--project-dir", str(folder)).data["status"] == "stopped"


def test_looking_changes_nothing(folder: Path, ktx: Run) -> None:
    before = files(folder)
    for words in (["status"], ["logs"], ["logs", "--audit"]):
        assert ktx("mcp", *words, "--project-dir", str(folder)).code == 0
    assert files(folder) == before


def test_logs_are_followed_over_a_rotation(folder: Path, forks: Forks) -> None:
    log = folder / ".ktx" / "logs" / "mcp.log"
    log.parent.mkdir(parents=True)
    log.write_text("one\ntwo\n")
    following = forks.piped(("mcp", "logs", "--follow", "-n", "1"), folder=folder, environ=os.environ)
    assert following.stdout is not None
    assert following.stdout.readline() == "two\n"
    with log.open("a") as stream:
        stream.write("three\n")
    assert following.stdout.readline() == "three\n"
    log.rename(log.with_name("mcp.log.1"))
    log.write_text("four\n")
    assert following.stdout.readline() == "four\n"
    following.send_signal(signal.SIGINT)
    following.communicate(timeout=30)
    assert following.returncode == 130


def test_in_the_foreground_it_logs_to_stderr_and_ends_by_a_signal(folder: Path, ktx: Run, forks: Forks) -> None:
    with subprocess.Popen(
        [KTX, "mcp", "start", "--foreground", "--port", "0"], cwd=folder, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        assert server.stderr.readline().startswith(f"serving {folder} at http://127.0.0.1:")
        log = folder / ".ktx" / "logs" / "mcp.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("of an earlier server\n")
        shown = ktx("mcp", "logs", "--project-dir", str(folder), "--json")
        (warning,) = shown.envelope["warnings"]
        assert f"(pid {server.pid}) runs in the foreground, so its log is on its stderr" in warning["message"]
        assert "the terminal that runs it" in warning["hint"] and shown.data["lines"] == ["of an earlier server"]
        log.unlink()
        assert "next:" not in ktx("mcp", "logs", "--project-dir", str(folder)).err, "it is running already"
        assert not ktx("mcp", "logs", "--audit", "--project-dir", str(folder), "--json").envelope["warnings"]
        following = forks.piped(("mcp", "logs", "--follow"), folder=folder, environ=os.environ)
        assert following.stderr is not None and "its log is on its stderr" in following.stderr.readline()
        following.send_signal(signal.SIGINT)
        following.communicate(timeout=30)
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=30) == 0
        assert server.stderr.read() == ""
    assert not (folder / ".ktx" / "mcp.json").exists()


@pytest.mark.parametrize(("config", "code"), [(None, 3), ("llm: [", 2)])
def test_stdio_says_what_is_wrong_on_stderr(tmp_path: Path, ktx: Run, config: str | None, code: int) -> None:
    if config is not None:
        (tmp_path / "ktx.yaml").write_text(config)
    answer = ktx("mcp", "stdio", "--json", "--project-dir", str(tmp_path))
    assert (answer.code, answer.out) == (code, "")
    assert "error: " in answer.err and "hint: " in answer.err
