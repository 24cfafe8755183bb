"""The pool: never more processes than its size, each used once, the next of a kind connected ahead."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.llm.backends.claude.binary import Host
from ktx_cli.llm.backends.claude_code.isolation import MAX_ARGUMENT, ProcessSpec
from ktx_cli.llm.backends.claude_code.pool import KINDS_REMEMBERED, Pool, ProcessStartError


class Client:
    """A client that only counts."""

    def __init__(self, world: World, options: Any) -> None:
        self.world, self.options = world, options
        self.state = "made"
        self.used = 0
        world.clients.append(self)

    async def connect(self) -> None:
        self.world.started += 1
        self.state = "connecting"
        try:
            await self.world.connecting(self)
        except BaseException:
            self.state = "failed"
            raise
        self.state = "connected"

    async def disconnect(self) -> None:
        await asyncio.sleep(0)
        assert self.state == "connected", self.state
        self.state = "ended"


class World:
    """Every client a pool made. `connecting` is what a client waits for."""

    def __init__(self, connecting: Callable[[Client], Awaitable[None]] | None = None) -> None:
        self.clients: list[Client] = []
        self.started = 0
        self.connecting: Callable[[Client], Awaitable[None]] = connecting or self.at_once

    async def at_once(self, client: Client) -> None:
        await asyncio.sleep(0)

    def make(self, options: Any) -> Any:
        return Client(self, options)

    @property
    def living(self) -> int:
        return sum(client.state in ("connecting", "connected") for client in self.clients)


def kind(number: int = 0, **facts: Any) -> ProcessSpec:
    return ProcessSpec("sonnet", f"system {number}", 1, **facts)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, tmp_path / "launcher", tmp_path / "claude", True, {"PATH": "/usr/bin"})


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def use(pool: Pool, spec: ProcessSpec, pauses: int = 1) -> Client:
    async with pool.process(spec) as process:
        client: Client = process.client
        client.used += 1
        for _ in range(pauses):
            await asyncio.sleep(0)
        assert client.state == "connected"
        return client


@pytest.mark.parametrize("size", [1, 2, 3, 8])
@pytest.mark.parametrize("kinds", [1, 3, 20])
@pytest.mark.parametrize("seed", range(4))
def test_the_size_is_never_passed(host: Host, size: int, kinds: int, seed: int) -> None:
    dice = random.Random(f"{size}/{kinds}/{seed}")
    world = World()
    living: list[int] = []

    async def connecting(client: Client) -> None:
        for _ in range(dice.randrange(5)):
            await asyncio.sleep(0)
            living.append(world.living)
        if dice.random() < 0.1:
            raise ConnectionError("did not start")

    async def one(pool: Pool) -> None:
        try:
            await use(pool, kind(dice.randrange(kinds)), dice.randrange(6))
        except ProcessStartError:
            return

    async def go() -> None:
        world.connecting = connecting
        pool = Pool(host, size=size, connect=world.make)
        tasks = [asyncio.create_task(one(pool)) for _ in range(20)]
        for task in dice.sample(tasks, 4):
            await asyncio.sleep(0)
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [one for one in found if one is not None and not isinstance(one, asyncio.CancelledError)] == []
        await pool.aclose()
        assert (pool.alive, world.living) == (0, 0)
        assert pool.peak <= size

    asyncio.run(asyncio.wait_for(go(), 20))
    assert max(living, default=0) <= size
    assert {client.state for client in world.clients} <= {"ended", "failed"}
    assert all(client.used <= 1 for client in world.clients)


def test_none_is_used_twice(host: Host) -> None:
    async def go() -> None:
        world = World()
        pool = Pool(host, size=3, connect=world.make)
        clients = [await use(pool, kind()) for _ in range(6)]
        await pool.aclose()
        assert len(set(map(id, clients))) == 6

    asyncio.run(go())


def test_the_next_is_connected_ahead_from_the_second_ask(host: Host) -> None:
    async def go() -> None:
        world = World()
        pool = Pool(host, size=3, connect=world.make)
        started = []
        for _ in range(4):
            await use(pool, kind())
            await settle()
            started.append(world.started)
        assert started == [1, 3, 4, 5]
        assert world.living == 1
        await pool.aclose()
        assert world.living == 0

    asyncio.run(go())


def test_as_many_are_connected_ahead_as_work_at_once(host: Host) -> None:
    async def go() -> None:
        world = World()
        pool = Pool(host, size=9, connect=world.make)
        for _ in range(3):
            await asyncio.gather(*(use(pool, kind(), 3) for _ in range(4)))
            await settle()
        assert world.living == 4
        for _ in range(6):
            await use(pool, kind())
            await settle()
        assert world.living == 1
        await pool.aclose()

    asyncio.run(go())


def test_a_kind_asked_for_once_is_not_connected_ahead(host: Host) -> None:
    async def go() -> None:
        world = World()
        pool = Pool(host, size=9, connect=world.make)
        for number in range(5):
            await use(pool, kind(number))
        await settle()
        assert (world.started, world.living) == (5, 0)
        await pool.aclose()

    asyncio.run(go())


def test_the_pool_forgets_kinds(host: Host) -> None:
    async def go() -> None:
        world = World()
        pool = Pool(host, size=2, connect=world.make)
        await use(pool, kind(0))
        for number in range(1, KINDS_REMEMBERED + 1):
            await use(pool, kind(number))
        await use(pool, kind(0))
        await settle()
        assert world.living == 0
        await pool.aclose()

    asyncio.run(go())


def test_one_that_waits_makes_room_for_another_kind(host: Host) -> None:
    async def go() -> None:
        world = World()
        pool = Pool(host, size=2, connect=world.make)
        for _ in range(2):
            await use(pool, kind(1))
            await settle()
        [waiting] = [client for client in world.clients if client.state == "connected"]
        async with pool.process(kind(2)), pool.process(kind(3)):
            assert (waiting.state, pool.alive) == ("ended", 2)
        await pool.aclose()
        assert world.living == 0

    asyncio.run(go())


@pytest.mark.parametrize("size", [1, 2])
def test_a_small_pool_connects_ahead_when_a_place_is_free(host: Host, size: int) -> None:
    async def go() -> None:
        world = World()
        pool = Pool(host, size=size, connect=world.make)
        for _ in range(3):
            await use(pool, kind())
        await settle()
        assert world.living == 1
        await pool.aclose()

    asyncio.run(go())


def test_nothing_is_connected_ahead_while_another_kind_is_in_line(host: Host) -> None:
    async def go() -> None:
        world = World()
        pool = Pool(host, size=1, connect=world.make)
        await use(pool, kind(1))
        tasks = [asyncio.create_task(use(pool, kind(number))) for number in (1, 2, 1, 2)]
        await asyncio.gather(*tasks)
        assert world.started == 5
        await pool.aclose()

    asyncio.run(go())


def test_a_call_waits_until_there_is_room(host: Host) -> None:
    async def go() -> None:
        world = World()
        pool = Pool(host, size=1, connect=world.make)
        async with pool.process(kind(1)):
            second = asyncio.create_task(use(pool, kind(2)))
            await settle()
            assert world.started == 1
        assert (await second).used == 1
        await pool.aclose()

    asyncio.run(go())


def test_cancelled_while_it_waits_for_room(host: Host) -> None:
    async def go() -> None:
        world = World()
        pool = Pool(host, size=1, connect=world.make)
        async with pool.process(kind(1)):
            second = asyncio.create_task(use(pool, kind(2)))
            await settle()
            second.cancel()
            await asyncio.wait([second])
            assert second.cancelled()
        await pool.aclose()
        assert (world.started, pool.alive) == (1, 0)

    asyncio.run(go())


def test_cancelled_while_it_connects(host: Host) -> None:
    async def go() -> None:
        gate = asyncio.Event()

        async def slow(client: Client) -> None:
            await gate.wait()

        world = World(slow)
        pool = Pool(host, size=1, connect=world.make)
        task = asyncio.create_task(use(pool, kind()))
        await settle()
        task.cancel()
        await settle()
        gate.set()
        await asyncio.wait([task])
        assert task.cancelled()
        await pool.aclose()
        assert [client.state for client in world.clients] == ["ended"]
        assert pool.alive == 0

    asyncio.run(go())


def test_cancelled_twice_nothing_stays(host: Host) -> None:
    async def go() -> None:
        gate = asyncio.Event()

        async def slow(client: Client) -> None:
            await gate.wait()

        world = World(slow)
        pool = Pool(host, size=1, connect=world.make)
        task = asyncio.create_task(use(pool, kind()))
        for _ in range(2):
            await settle()
            task.cancel()
        await asyncio.wait([task])
        gate.set()
        await pool.aclose()
        assert [client.state for client in world.clients] == ["ended"]

    asyncio.run(go())


def test_one_that_does_not_connect_frees_its_place(host: Host) -> None:
    async def go() -> None:
        async def never(client: Client) -> None:
            raise ConnectionError("no")

        world = World(never)
        pool = Pool(host, size=1, connect=world.make)
        for _ in range(3):
            with pytest.raises(ProcessStartError, match="ConnectionError"):
                await use(pool, kind())
        assert pool.alive == 0
        world.connecting = world.at_once
        await use(pool, kind())
        await pool.aclose()

    asyncio.run(go())


def test_one_connected_ahead_that_failed_costs_no_call(host: Host) -> None:
    async def go() -> None:
        world = World()

        async def fails_ahead(client: Client) -> None:
            if world.started == 3:
                raise ConnectionError("no")

        world.connecting = fails_ahead
        pool = Pool(host, size=3, connect=world.make)
        for _ in range(4):
            await use(pool, kind())
            await settle()
        assert world.started > 3
        await pool.aclose()
        assert pool.alive == 0

    asyncio.run(go())


def test_a_call_does_not_wait_for_its_process_to_end(host: Host) -> None:
    async def go() -> None:
        world = World()
        pool = Pool(host, size=1, connect=world.make)
        client = await use(pool, kind())
        assert client.state == "connected"
        await pool.aclose()
        assert client.state == "ended"

    asyncio.run(go())


def test_an_error_goes_on_when_the_process_has_ended(host: Host) -> None:
    async def go() -> None:
        world = World()
        pool = Pool(host, size=1, connect=world.make)
        with pytest.raises(KeyError):
            async with pool.process(kind()):
                raise KeyError("x")
        assert [client.state for client in world.clients] == ["ended"]
        assert pool.alive == 0

    asyncio.run(go())


def test_a_closed_pool_starts_nothing(host: Host) -> None:
    async def go() -> None:
        world = World()
        pool = Pool(host, size=1, connect=world.make)
        await pool.aclose()
        with pytest.raises(RuntimeError, match="closed"):
            await use(pool, kind())
        assert world.started == 0

    asyncio.run(go())


def test_a_pool_has_at_least_one(host: Host) -> None:
    with pytest.raises(ValueError):
        Pool(host, size=0)


@pytest.mark.requirement("R62")
@pytest.mark.parametrize("long", ["ü" * MAX_ARGUMENT, "a\0b"])
def test_what_no_argument_can_hold_is_a_private_file_as_long_as_its_process(host: Host, long: str) -> None:
    async def go() -> None:
        world = World()
        pool = Pool(host, size=1, connect=world.make)
        async with pool.process(ProcessSpec("sonnet", long, 1)) as process:
            said = process.client.options.system_prompt
            path = Path(said["path"])
            assert said["type"] == "file"
            assert path.read_text("utf-8") == long
            assert path.stat().st_mode & 0o777 == 0o600
            assert host.project_dir / ".ktx" in path.parents
        await pool.aclose()
        assert not path.exists()

    asyncio.run(go())


@pytest.mark.requirement("R62")
def test_the_file_of_one_that_did_not_connect_is_removed(host: Host) -> None:
    async def go() -> None:
        async def never(client: Client) -> None:
            raise ConnectionError("no")

        pool = Pool(host, size=1, connect=World(never).make)
        with pytest.raises(ProcessStartError):
            await use(pool, ProcessSpec("sonnet", "x" * (MAX_ARGUMENT + 1), 1))

    asyncio.run(go())
    assert list((host.project_dir / ".ktx").rglob("system-*")) == []


def test_what_the_launcher_dropped_is_no_error_text(host: Host) -> None:
    async def go() -> None:
        world = World()
        pool = Pool(host, size=1, connect=world.make)
        async with pool.process(kind()) as process:
            process.client.options.stderr('ktx-claude-launcher dropped: ["AWS_REGION"]')
            process.client.options.stderr("a line")
            assert (process.dropped, list(process.stderr)) == (["AWS_REGION"], ["a line"])
        await pool.aclose()

    asyncio.run(go())
