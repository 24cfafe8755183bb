"""Shared pacing of model calls: slots, pauses until a limit resets, fewer slots under pressure, retries.

One governor serves every call of a process. A refusal pauses all of them until the provider's reset time, its
`retry-after`, or a growing delay; under pressure only `minConcurrencyUnderPressure` calls run side by side, and every
success after that doubles the number until the full one is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.events import RateLimitWait
from ktx_cli.project.config.ingest import RateLimit

Result = TypeVar("Result")
Notify = Callable[[RateLimitWait], None]
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RateSignal:
    """What a provider said of its limits. `utilization` is 0 to 1; `retry_after` seconds; `resets_at` Unix seconds."""

    status: Literal["allowed", "warning", "rejected"]
    utilization: float | None = None
    retry_after: float | None = None
    resets_at: float | None = None


class Governor:
    """Paces calls. `clock` gives Unix seconds; `sleep` and `rng` can be replaced in tests."""

    def __init__(
        self,
        rate_limit: RateLimit,
        *,
        max_concurrency: int,
        clock: Callable[[], float] = time.time,
        sleep: Sleep = asyncio.sleep,
        rng: random.Random | None = None,
        tick_seconds: float = 1.0,
    ) -> None:
        if max_concurrency < 1:
            raise ValueError("max_concurrency must be at least 1")
        self.rate_limit = rate_limit
        self.max_concurrency = max_concurrency
        self.limit = max_concurrency
        self.active = 0
        self._clock = clock
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._tick = tick_seconds
        self._paused_until = 0.0
        self._reason = "rate_limit"
        self._rejections = 0
        self._changed = asyncio.Condition()

    @property
    def max_attempts(self) -> int:
        """How often one call may be tried."""
        return self.rate_limit.retry.max_attempts if self.rate_limit.enabled else 1

    @property
    def paused_for(self) -> float:
        """Seconds until calls may start again, 0 when they may now."""
        return max(0.0, self._paused_until - self._clock())

    async def call(
        self,
        operation: Callable[[int], Awaitable[Result]],
        *,
        notify: Notify,
        may_retry: Callable[[], bool] = lambda: True,
    ) -> Result:
        """Run `operation(attempt)` in a slot; `attempt` counts from 0. A failure that may pass is tried again."""
        attempt = 0
        while True:
            try:
                async with self.slot(notify):
                    result = await operation(attempt)
            except LlmError as error:
                attempt += 1
                if not error.retryable or attempt >= self.max_attempts or not may_retry():
                    raise
                await self._after_failure(error, attempt, notify)
            else:
                self.observe(RateSignal("allowed"))
                return result

    @contextlib.asynccontextmanager
    async def slot(self, notify: Notify) -> AsyncIterator[None]:
        """Hold one of the slots, once no pause holds and one is free; cancelled while waiting, none is taken."""
        await self._enter(notify)
        try:
            yield
        finally:
            self.active -= 1
            await self._wake()

    def observe(self, signal: RateSignal) -> None:
        """Take in what a provider said."""
        if not self.rate_limit.enabled:
            return
        pressed = signal.utilization is not None and signal.utilization >= self.rate_limit.throttle_threshold
        if signal.status == "rejected":
            self._rejections += 1
            self._shrink()
            self._pause(signal.retry_after, signal.resets_at)
        elif signal.status == "warning" or pressed:
            self._shrink()
        else:
            self._rejections = 0
            self.limit = min(self.max_concurrency, self.limit * 2)

    def backoff(self, failures: int) -> float:
        """Return seconds to wait after that many failures in a row."""
        retry = self.rate_limit.retry
        delay: float = min(retry.base_delay_ms * 2 ** (failures - 1), retry.max_delay_ms) / 1000
        return delay * self._rng.uniform(0.75, 1.25) if retry.jitter else delay

    def _shrink(self) -> None:
        self.limit = min(self.max_concurrency, self.rate_limit.min_concurrency_under_pressure)

    def _pause(self, retry_after: float | None, resets_at: float | None) -> None:
        now = self._clock()
        if resets_at is not None and resets_at > now:
            until = resets_at
        elif retry_after is not None:
            until = now + retry_after
        else:
            until = now + self.backoff(self._rejections)
        self._paused_until = max(self._paused_until, until)

    async def _after_failure(self, error: LlmError, attempt: int, notify: Notify) -> None:
        if error.code == "rate_limit":
            self.observe(RateSignal("rejected", retry_after=error.retry_after, resets_at=error.resets_at))
            self._refuse_long_wait(error)
        else:
            self._shrink()
            wait = error.retry_after if error.retry_after is not None else self.backoff(attempt)
            await self._wait_until(self._clock() + wait, error.code, notify)

    def _refuse_long_wait(self, error: LlmError) -> None:
        limit = self.rate_limit.max_wait_ms
        if limit is not None and self.paused_for > limit / 1000:
            error.details["wait_seconds"] = round(self.paused_for, 1)
            raise error

    async def _enter(self, notify: Notify) -> None:
        while True:
            if self.paused_for > 0:
                await self._wait_until(self._paused_until, self._reason, notify)
                continue
            async with self._changed:
                if self.paused_for <= 0 and self.active < self.limit:
                    self.active += 1
                    return
                if self.paused_for <= 0:
                    await self._changed.wait()

    async def _wait_until(self, moment: float, reason: str, notify: Notify) -> None:
        notify(RateLimitWait("started", round(max(0.0, moment - self._clock()), 3), reason))
        while (left := moment - self._clock()) > 0:
            await self._sleep(min(self._tick, left))
            left = max(0.0, moment - self._clock())
            if left > 0:
                notify(RateLimitWait("tick", round(left, 3), reason))
        notify(RateLimitWait("finished", 0.0, reason))

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()
