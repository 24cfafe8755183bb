"""Which tool failures of a loop nothing has made good: they fail its unit of work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ktx_cli.llm.tools import ToolError
from ktx_cli.llm.types import ToolInvocation

_FAILED: Final = "Tool `{name}` failed: "
"""What the text of a call begins with that reached its tool, and failed there."""


class Refused(ToolError):
    """A call that changed nothing; the message says to the model why, and what to do instead."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure no later success made good. `target`: what the call was about, such as `wiki:refunds`."""

    target: str
    tool: str
    message: str


@dataclass(slots=True)
class Failures:
    """Failures by what they are about: the last of each, until a call about the same thing succeeds."""

    _pending: dict[str, Failure] = field(default_factory=dict)

    def failed(self, target: str, tool: str, message: str) -> None:
        """Note a failure."""
        self._pending[target] = Failure(target, tool, message)

    def made_good(self, target: str) -> None:
        """Note a success about a target."""
        self._pending.pop(target, None)

    def fell_back(self, table: str | None) -> None:
        """Note an accepted fallback: it makes the failure good of the source it names.

        One that names nothing makes the only failure of the semantic layer good, where there is just one.
        """
        sources = [target for target in self._pending if target.startswith("sl:")]
        if table is None:
            named = sources if len(sources) == 1 else []
        else:
            wanted = table.replace('"', "").rpartition(".")[2].casefold()
            named = [target for target in sources if target.rpartition("/")[2].casefold() == wanted]
        for target in named:
            self.made_good(target)

    def unresolved(self, writers: Iterable[str], invocations: Iterable[ToolInvocation]) -> tuple[Failure, ...]:
        """Return what nothing made good.

        `invocations`: all calls of the loop, for those of `writers` whose arguments did not fit never reached the tool,
        whoever said so (ktx, or Claude Code): they are made good by a later call of the same tool that did.
        """
        return (*self._pending.values(), *_unfit(set(writers), invocations).values())

    def to_json(self) -> dict[str, list[str]]:
        """Return the pending failures as plain values."""
        return {target: [each.tool, each.message] for target, each in self._pending.items()}

    @classmethod
    def from_json(cls, stored: Mapping[str, list[str]]) -> Failures:
        """Return what `to_json` gave."""
        return cls({target: Failure(target, tool, message) for target, (tool, message) in stored.items()})


def _unfit(writers: set[str], invocations: Iterable[ToolInvocation]) -> dict[str, Failure]:
    pending: dict[str, Failure] = {}
    for invocation in invocations:
        if invocation.name not in writers:
            continue
        if invocation.is_error and not invocation.text.startswith(_FAILED.format(name=invocation.name)):
            target = f"arguments of {invocation.name}"
            pending[invocation.name] = Failure(target, invocation.name, invocation.text)
        else:
            pending.pop(invocation.name, None)
    return pending
