"""The MCP server on the demo: latency of `sl_query` over stdio and HTTP, 200 calls at once, memory over many calls.

Prints p50 and p99 in ms of the demo's questions, of 50 questions made of them, and of such 50 when each is new to the
server, one client in sequence, the CPU time that the server takes for a call (in process: the benchmark), and the ratio
to the same question in process; calls lost of 200 by 20 clients; RSS of the server at each quarter of the last part.
Wall times depend on what else the machine does; CPU times do not.

    python benchmarks/bench_mcp.py [PROJECT] [--calls 20000] [--rounds 40]
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ktx_cli.jobs.demo.demo import QUESTIONS
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.mcp.tool import Call, Options
from ktx_cli.mcp.tools import TOOLS
from ktx_cli.project.layout import Layout
from tests.worlds.kills import installed_ktx

KTX = str(installed_ktx())
Query = dict[str, Any]


def demo_questions() -> list[Query]:
    return [dict(each.query) for each in QUESTIONS]


def made_questions(count: int = 50, first_limit: int = 100) -> list[Query]:
    """Return different questions: parts of the demo's measures by parts of its dimensions, each with its own limit."""
    found = [
        {**query, "measures": list(measures), "dimensions": list(dimensions), "limit": first_limit}
        for query in demo_questions()
        for measures in parts(query["measures"])
        for dimensions in parts(query["dimensions"])
    ]
    found = [{key: value for key, value in each.items() if key != "order_by"} for each in found]
    return [{**found[at % len(found)], "limit": first_limit + at} for at in range(count)]


def parts(items: Any) -> list[tuple[Any, ...]]:
    return [chosen for size in range(1, len(items) + 1) for chosen in itertools.combinations(items, size)]


def percentiles(times: list[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    return cuts[49], cuts[98]


def in_process(project: Path, queries: list[Query], rounds: int, *, first: bool = False) -> list[float]:
    (tool,) = (each for each in TOOLS if each.name == "sl_query")
    served = ServedProject(Layout(project), dict(os.environ))
    times = []
    try:
        tool.run(Call(served, Options()), tool.input_model.model_validate(demo_questions()[0]))  # loads the layer
        for at in range(rounds + 1):
            for query in queries:
                begun = time.perf_counter()
                tool.run(Call(served, Options()), tool.input_model.model_validate(query))
                times += [(time.perf_counter() - begun) * 1000] if at or first else []
    finally:
        served.close()
    return times


async def over(session: ClientSession, queries: list[Query], rounds: int, *, first: bool = False) -> list[float]:
    times = []
    await session.call_tool("sl_query", demo_questions()[0])  # so that the layer is loaded
    for at in range(rounds + 1):
        for query in queries:
            begun = time.perf_counter()
            answer = await session.call_tool("sl_query", query)
            times += [(time.perf_counter() - begun) * 1000] if at or first else []
            assert not answer.is_error, answer
    return times


Work = Callable[[ClientSession], Awaitable[Any]]


async def with_stdio(project: Path, work: Work) -> Any:
    server = StdioServerParameters(
        command=KTX, args=["--project-dir", str(project), "mcp", "stdio"], env=dict(os.environ)
    )
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        return await work(session)


async def with_http(url: str, work: Work) -> Any:
    async with (
        httpx2.AsyncClient(timeout=120) as client,
        streamable_http_client(url, http_client=client) as (read, write, *_),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        return await work(session)


def cpu(pid: int) -> float:
    """Return the CPU time of a process in ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def rss(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def at_once(url: str, pid: int, clients: int = 20, each: int = 10) -> tuple[int, float, float]:
    """Return how many of the calls were answered, how long all took, and the CPU time of the server in ms."""
    answered = 0
    queries = demo_questions()

    async def client(session: ClientSession) -> None:
        async def one(at: int) -> None:
            nonlocal answered
            answer = await session.call_tool("sl_query", queries[at % len(queries)])
            answered += not answer.is_error

        async with anyio.create_task_group() as calls:
            for at in range(each):
                calls.start_soon(one, at)

    begun, used = time.perf_counter(), cpu(pid)
    async with anyio.create_task_group() as tasks:
        for _ in range(clients):
            tasks.start_soon(with_http, url, client)
    return answered, time.perf_counter() - begun, cpu(pid) - used


async def memory(url: str, pid: int, calls: int) -> None:
    queries = made_questions()

    async def work(session: ClientSession) -> None:
        print(f"memory at the start               {rss(pid):7.1f} MB")
        for quarter in range(1, 5):
            for at in range(calls // 4):
                await session.call_tool("sl_query", queries[at % len(queries)])
            print(f"memory after {quarter * (calls // 4):6,} calls         {rss(pid):7.1f} MB", flush=True)

    await with_http(url, work)


def timed(ask: Callable[[], list[float]], used: Callable[[], float] | None) -> tuple[float, float, float | None]:
    """Return p50 and p99 in ms, and the CPU time of a call where `used` tells how much there was so far."""
    before = None if used is None else used()
    times = ask()
    return *percentiles(times), None if used is None or before is None else (used() - before) / len(times)


def latency(project: Path, url: str, pid: int, rounds: int) -> None:
    turns = max(1, rounds // 10)
    for name, limits, made, rounds_of, first in (
        ("the demo's questions", (1, 1, 1), lambda limit: demo_questions(), rounds, False),
        ("50 different questions", (100, 100, 100), lambda limit: made_questions(first_limit=limit), turns, False),
        ("each for the first time", (200, 300, 400), lambda limit: made_questions(first_limit=limit), 0, True),
    ):
        asked = [made(limit) for limit in limits]
        ask = functools.partial(over, rounds=rounds_of, first=first)
        direct = functools.partial(in_process, project, asked[0], rounds_of, first=first)
        stdio, http = (functools.partial(ask, queries=each) for each in asked[1:])
        rows = {
            "in process": timed(direct, lambda: time.process_time() * 1000),
            "stdio": timed(functools.partial(anyio.run, with_stdio, project, stdio), None),
            "HTTP": timed(functools.partial(anyio.run, with_http, url, http), functools.partial(cpu, pid)),
        }
        for way, (p50, p99, used) in rows.items():
            ratio = p50 / rows["in process"][0]
            spent = "" if used is None else f"  {used:5.1f} ms CPU"
            print(
                f"{name:24} {way:12} p50 {p50:6.1f} ms  p99 {p99:6.1f} ms  {ratio:5.1f} x in process{spent}", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("project", nargs="?", type=Path)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=40)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = asked.project or Path(folder, "demo")
        if asked.project is None:
            subprocess.run(
                [KTX, "demo", str(project)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        start = [KTX, "--project-dir", str(project), "mcp"]
        done = subprocess.run([*start, "start", "--port", "0", "--json"], capture_output=True, text=True, check=True)
        data = json.loads(done.stdout)["data"]
        try:
            latency(project, data["url"], data["pid"], asked.rounds)
            for _ in range(3):
                answered, seconds, used = anyio.run(at_once, data["url"], data["pid"])
                print(f"200 calls of 20 clients at once: {answered} answered in {seconds:.2f} s, {used:.0f} ms CPU")
            anyio.run(memory, data["url"], data["pid"], asked.calls)
        finally:
            subprocess.run([*start, "stop"], check=True, stdout=subprocess.DEVNULL)
    if answered != 200:
        sys.exit(f"{200 - answered} calls were lost")


if __name__ == "__main__":
    main()
