"""Overhead of `claude-code` calls over the model's own latency, on the real binary and a scripted server.

Prints, for 1, 4 and 8 calls at once, the median of what a warm and a cold call add to the server's delay, the same for
a bare `ClaudeSDKClient` with the same options, their ratio and difference, and the memory of the binaries for each pool
size. Exit 1 when, one at a time, a warm call adds more than 0.12 s, or warm or cold more than 0.03 s over the bare
client.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from ktx_cli.llm.backends.claude.binary import Host, claude_host
from ktx_cli.llm.backends.claude_code.isolation import ProcessSpec
from ktx_cli.llm.backends.claude_code.pool import Pool, Process, sdk_client
from ktx_cli.llm.routing import create_runtime
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.testing.claude_session import OfflineSession, offline_session
from ktx_cli.testing.model_script import says
from ktx_cli.testing.model_server import ModelServer

DELAY = 1.5
"""Seconds the model takes: long enough for the next process to connect, as a real answer is."""

ROUNDS = 7
WARM, OVER_BARE = 0.12, 0.03
SPEC = ProcessSpec("sonnet", "Be brief.", 1, retries=5)

Call = Callable[[int], Awaitable[None]]


def config(at_once: int) -> KtxConfig:
    llm = {"provider": {"backend": "claude-code"}, "models": {"default": "sonnet"}}
    return KtxConfig.model_validate({"llm": llm, "ingest": {"workUnits": {"maxConcurrency": at_once}}})


async def rounds(at_once: int, number: int, call: Call) -> list[float]:
    """Return what each call adds to the model's delay; rounds follow each other after a pause, all calls warm."""

    async def one(place: int) -> float:
        started = time.perf_counter()
        await call(place)
        return time.perf_counter() - started - DELAY

    found: list[float] = []
    for _ in range(number):
        found += await asyncio.gather(*(one(place) for place in range(at_once)))
        await asyncio.sleep(0.5)
    return found


async def ours(session: OfflineSession, at_once: int) -> tuple[float, float]:
    """Return the medians of cold and warm calls through the runtime."""
    cold: list[float] = []
    for number in range(3):
        async with create_runtime(config(at_once), session.home, session.environ) as runtime:

            async def first(place: int, runtime: object = runtime, number: int = number) -> None:
                await runtime.generate_text("hi", system=f"cold {number} {place}")  # type: ignore[attr-defined]

            cold += await rounds(at_once, 1, first)
    async with create_runtime(config(2 * at_once), session.home, session.environ) as runtime:

        async def again(place: int) -> None:
            await runtime.generate_text("hi", system="Be brief.")

        await rounds(at_once, 2, again)
        await asyncio.sleep(0.5 * at_once)
        warm = await rounds(at_once, ROUNDS, again)
    return statistics.median(cold), statistics.median(warm)


async def bare(host: Host, at_once: int) -> tuple[float, float]:
    """Return the same medians for the SDK's own client, options and life of a process as ours are."""

    async def ask(process: Process) -> None:
        await process.client.query("hi")
        async for _ in process.client.receive_response():
            pass

    async def cold_call(place: int) -> None:
        process = Process(SPEC, host, sdk_client)
        await process.client.connect()
        await ask(process)
        ending.append(asyncio.create_task(process.close()))

    async def warm_call(place: int) -> None:
        process = await ready[place]
        ready[place] = asyncio.create_task(connected())
        await ask(process)
        ending.append(asyncio.create_task(process.close()))

    async def connected() -> Process:
        process = Process(SPEC, host, sdk_client)
        await process.client.connect()
        return process

    ending: list[asyncio.Task[None]] = []
    cold = await rounds(at_once, 3, cold_call)
    ready = [asyncio.create_task(connected()) for _ in range(at_once)]
    await asyncio.gather(*ready)
    warm = await rounds(at_once, ROUNDS, warm_call)
    for process in await asyncio.gather(*ready):
        await process.close()
    await asyncio.gather(*ending)
    return statistics.median(cold), statistics.median(warm)


def resident() -> int:
    """Return the bytes the `claude` binaries below this process hold, shared pages counted each time."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/statm"):
        try:
            parent = int((status.parent / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and os.readlink(status.parent / "exe").endswith("/claude"):
                total += int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            continue
    return total


async def memory(host: Host, size: int) -> tuple[int, int]:
    """Return the most processes and the most bytes a pool of a size held while 16 calls wanted one."""
    pool, most = Pool(host, size=size), 0

    async def one() -> None:
        nonlocal most
        async with pool.process(SPEC):
            await asyncio.sleep(0.3)
            most = max(most, resident())

    await asyncio.gather(*(one() for _ in range(16)))
    await pool.aclose()
    return pool.peak, most


def main() -> int:
    failed = False
    with ModelServer(lambda request: says("ok", delay=DELAY)) as server, offline_session(server) as session:
        host, binary = claude_host("claude-code", config(1), project_dir=session.home, environ=session.environ)
        print(f"{binary}; the model takes {DELAY:g} s; medians of what a call adds")
        print(f"{'at once':>8} {'':>5} {'ktx':>8} {'bare':>8} {'ratio':>6} {'over bare':>10}")
        for at_once in (1, 4, 8):
            mine, theirs = asyncio.run(ours(session, at_once)), asyncio.run(bare(host, at_once))
            for kind, own, plain in zip(("cold", "warm"), mine, theirs, strict=True):
                print(f"{at_once:>8} {kind:>5} {own:>7.3f}s {plain:>7.3f}s {own / plain:>6.2f} {own - plain:>9.3f}s")
                if at_once == 1:
                    failed |= own - plain > OVER_BARE or (kind == "warm" and own > WARM)
        print(f"{'pool':>8} {'processes':>10} {'resident':>10}")
        for size in (1, 2, 4, 8):
            peak, bytes_held = asyncio.run(memory(host, size))
            print(f"{size:>8} {peak:>10} {bytes_held / 1e6:>7.0f} MB")
            failed |= peak > size
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
