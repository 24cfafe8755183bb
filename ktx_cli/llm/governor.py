"""Shared pacing of model calls: slots, pauses until a limit resets, fewer slots under pressure, retries.

One governor serves every call of a process. A rejection pauses all calls until the provider's reset time, its
`retry-after`, or a growing delay. Under pressure, only `minConcurrencyUnderPressure` calls run concurrently; each
success after that doubles the number, up to the full one. A call made by a tool of a call that holds a slot takes no
slot: it would wait for the slot of its caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import email.utils
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.llm.types import RateLimitWait
from ktx_cli.project import RateLimit

Result = TypeVar("Result")
Notify = Callable[[RateLimitWait], None]
Sleep = Callable[[float], Awaitable[None]]
AddWait = Callable[[float], None]
"""Receives the seconds spent on a wait."""
OnWait = Callable[[float, str], None]
"""Called once per pause, however many calls wait for its end, with the seconds and the code of the error."""

_HOLDS_SLOT: Final = contextvars.ContextVar("ktx_llm_holds_slot", default=False)


def _ignore(seconds: float) -> None:
    """Ignore the seconds."""


def ignore_wait(seconds: float, reason: str) -> None:
    """Ignore a pause."""


@dataclass(frozen=True, slots=True)
class RateSignal:
    """The state of a provider's limits. `utilization` is 0 to 1, `retry_after` in seconds, `resets_at`
    in Unix seconds.
    """

    status: Literal["allowed", "warning", "rejected"]
    utilization: float | None = None
    retry_after: float | None = None
    resets_at: float | None = None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait, from a response's `retry-after-ms` or `retry-after` (in seconds or as a date)."""
    milliseconds = header_number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = header_number(value)
    if seconds is not None or not value:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def header_number(text: str | None) -> float | None:
    """Return the number in a header, at least 0; None if there is none."""
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return max(0.0, number) if number is not None and math.isfinite(number) else None


class Governor:
    """Paces calls. `clock` returns Unix seconds; tests can replace `sleep` and `rng`."""

    def __init__(
        self,
        rate_limit: RateLimit,
        *,
        max_concurrency: int,
        clock: Callable[[], float] = time.time,
        sleep: Sleep = asyncio.sleep,
        rng: random.Random | None = None,
        tick_seconds: float = 1.0,
        on_wait: OnWait = ignore_wait,
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
        self._on_wait = on_wait
        self._announced_until = 0.0
        self._paused_until = 0.0
        self._reason = "rate_limit"
        self._rejections = 0
        self._signals = 0
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def max_attempts(self) -> int:
        """Maximum number of attempts per call."""
        return self.rate_limit.retry.max_attempts if self.rate_limit.enabled else 1

    @property
    def paused_for(self) -> float:
        """Seconds until calls may start again, 0 if they may start now."""
        return max(0.0, self._paused_until - self._clock())

    def adopt(self, seconds: float) -> None:
        """Pause and slow down as another process had to, whose calls count against the same limits."""
        if self.rate_limit.enabled and seconds > self.paused_for:
            self._shrink()
            self._paused_until = self._clock() + seconds

    async def call(
        self,
        operation: Callable[[int], Awaitable[Result]],
        *,
        notify: Notify,
        may_retry: Callable[[], bool] = lambda: True,
        add_wait: AddWait = _ignore,
        backend: str = "",
    ) -> Result:
        """Run `operation(attempt)` in a slot; `attempt` counts from 0. Temporary failures are retried.

        `add_wait` receives the seconds spent on waits. Raises `LlmError` (`rate_limit`) instead of waiting longer than
        `maxWaitMs`.
        """
        attempt = 0
        while True:
            async with self.slot(notify, add_wait=add_wait, backend=backend):
                signals = self._signals
                try:
                    result = await operation(attempt)
                except LlmError as error:
                    failure = error
                else:
                    if signals == self._signals:
                        self.observe(RateSignal("allowed"))
                    return result
            attempt += 1
            self._note_failure(failure)
            if not failure.retryable or attempt >= self.max_attempts or not may_retry():
                raise failure
            with self._timed(add_wait):
                await self._after_failure(failure, attempt, notify)

    @contextlib.asynccontextmanager
    async def slot(self, notify: Notify, *, add_wait: AddWait = _ignore, backend: str = "") -> AsyncIterator[None]:
        """Hold a slot, once one is free and there is no pause. If cancelled while waiting, none is taken."""
        nested = _HOLDS_SLOT.get()
        with self._timed(add_wait):
            await self._enter(notify, backend, nested=nested)
        holds = _HOLDS_SLOT.set(True)
        try:
            yield
        finally:
            _HOLDS_SLOT.reset(holds)
            if not nested:
                self.active -= 1
                self._wake()

    @contextlib.contextmanager
    def _timed(self, add_wait: AddWait) -> Iterator[None]:
        started = self._clock()
        try:
            yield
        finally:
            add_wait(max(0.0, self._clock() - started))

    def observe(self, signal: RateSignal) -> None:
        """Process a rate limit signal from a provider."""
        if not self.rate_limit.enabled:
            return
        self._signals += 1
        pressed = signal.utilization is not None and signal.utilization >= self.rate_limit.throttle_threshold
        if signal.status == "rejected":
            if self.paused_for <= 0:  # calls rejected at the same time count once
                self._rejections += 1
            self._shrink()
            self._pause(signal.retry_after, signal.resets_at)
        elif signal.status == "warning" or pressed:
            self._shrink()
        else:
            self._rejections = 0
            self.limit = min(self.max_concurrency, self.limit * 2)
            self._wake()

    def backoff(self, failures: int) -> float:
        """Return the seconds to wait after that many failures in a row."""
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

    def _note_failure(self, error: LlmError) -> None:
        """Slow down all calls after a rejection, even if the rejected call is not retried."""
        if error.code == "rate_limit":
            self.observe(RateSignal("rejected", retry_after=error.retry_after, resets_at=error.resets_at))
        elif error.retryable and self.rate_limit.enabled:
            self._signals += 1
            self._shrink()

    async def _after_failure(self, error: LlmError, attempt: int, notify: Notify) -> None:
        """Wait as long as a failure requires; a rate limit's pause applies to all calls, which wait for it at the
        slot.
        """
        if error.code == "rate_limit":
            self._refuse_long_wait(error, self.paused_for)
            return
        wait = error.retry_after if error.retry_after is not None else self.backoff(attempt)
        self._refuse_long_wait(error, wait)
        await self._wait_until(self._clock() + wait, error.code, notify)

    def _refuse_long_wait(self, error: LlmError, wait: float) -> None:
        limit = self.rate_limit.max_wait_ms
        if limit is not None and wait > limit / 1000:
            error.details["wait_seconds"] = round(wait, 1)
            raise error

    async def _enter(self, notify: Notify, backend: str, *, nested: bool) -> None:
        while True:
            if self.paused_for > 0:
                refusal = llm_error("rate_limit", backend=backend, resets_at=self._paused_until)
                self._refuse_long_wait(refusal, self.paused_for)
                await self._wait_until(self._paused_until, self._reason, notify)
            elif nested:
                return
            elif self.active < self.limit:
                self.active += 1
                return
            else:
                await self._room()

    async def _room(self) -> None:
        """Return when a slot may become free."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    async def _wait_until(self, moment: float, reason: str, notify: Notify) -> None:
        seconds = round(max(0.0, moment - self._clock()), 3)
        if moment > self._announced_until:  # calls that wait for the same moment, or an earlier one, share one pause
            self._announced_until = moment
            self._on_wait(seconds, reason)
        notify(RateLimitWait("started", seconds, reason))
        while (left := moment - self._clock()) > 0:
            await self._sleep(min(self._tick, left))
            left = max(0.0, moment - self._clock())
            if left > 0:
                notify(RateLimitWait("tick", round(left, 3), reason))
        notify(RateLimitWait("finished", 0.0, reason))

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
