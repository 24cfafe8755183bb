"""Units brought together on one overlay: in order, past the gates, with one model that repairs or does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ktx_cli.agent_tools.session import ToolSession
from ktx_cli.core.errors import KtxError
from ktx_cli.documents.raw import RawFile, WorkUnit
from ktx_cli.engine.integration import Consolidation, Integration, Integrator, Repairer
from ktx_cli.engine.task import AgentRunner
from ktx_cli.engine.work import FileChange, Reconciliation, UnitOutcome, UnitStatus
from ktx_cli.llm.errors import llm_error
from ktx_cli.llm.types import CallFacts, LoopResult
from ktx_cli.project.layout import EmptyTree
from ktx_cli.project.workspace import Workspace
from ktx_cli.prompts import Prompt

PROMPTS = {name: Prompt(name, name, "1") for name in ("conflict_repair", "gate_repair")}


@dataclass(frozen=True)
class Wrong:
    """Something wrong in a file."""

    path: str

    def __str__(self) -> str:
        return f"{self.path} is wrong"


class Gates:
    """Holds a file with the word `bad` to be wrong, a definition at once and a page at the end."""

    def definitions(self, tree: Workspace, touched: Collection[str]) -> list[Wrong]:
        return self._wrong(tree, [path for path in touched if path.startswith("semantic-layer/")])

    def everything(self, tree: Workspace, touched: Collection[str], by_agents: Collection[str] = ()) -> list[Wrong]:
        private = [path for path in by_agents if "jane" in (tree.read_text(path) or "")]
        return [*self._wrong(tree, tree.paths()), *map(Wrong, sorted(private))]

    def invented(
        self, before: Workspace, after: Workspace, paths: Collection[str], texts: Iterable[str] = ()
    ) -> list[Wrong]:
        """Hold a file to be wrong that has the word `ghost`, which neither the tree before nor a text has."""
        known = [*(before.read_text(path) or "" for path in before.paths()), *texts]
        return [
            Wrong(path)
            for path in sorted(paths)
            if "ghost" in (after.read_text(path) or "") and not any("ghost" in each for each in known)
        ]

    def _wrong(self, tree: Workspace, paths: Collection[str]) -> list[Wrong]:
        return [Wrong(path) for path in sorted(paths) if "bad" in (tree.read_text(path) or "")]


@dataclass
class RepairingRuntime:
    """Writes the files a test says, through the tools of a repair, or fails."""

    writes: Mapping[str, str] = field(default_factory=dict)
    error: KtxError | None = None
    asked: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    records: Sequence[Mapping[str, Any]] = ()
    """The arguments with which it calls `record_contradiction`."""

    async def run_agent_loop(self, prompt: str, *, tools: Sequence[Any], **options: Any) -> LoopResult:
        self.asked.append(options["label"])
        self.tasks.append(prompt)
        if self.error is not None:
            raise self.error
        by_name = {tool.name: tool for tool in tools}
        for arguments in self.records:
            recording = by_name["record_contradiction"]
            recording.handler(recording.input_model(**arguments))
        for path, content in self.writes.items():
            tool = by_name["write_repair_file"]
            await tool.handler(tool.input_model(path=path, content=content))
        return LoopResult("", "end", CallFacts("anthropic", "repair", "m"))


def outcome(key: str, changes: Mapping[str, tuple[str | None, str | None]]) -> UnitOutcome:
    """Return a unit that is done; `changes`: path -> text before and after."""

    def data(text: str | None) -> bytes | None:
        return None if text is None else text.encode()

    files = {path: FileChange(data(before), data(after)) for path, (before, after) in changes.items()}
    return UnitOutcome("docs", "files", WorkUnit(key, key, ()), UnitStatus.DONE, changes=files)


def integrate(
    outcomes: Sequence[UnitOutcome],
    runtime: RepairingRuntime | None = None,
    *,
    review: Callable[[Workspace], Reconciliation] = lambda workspace: Reconciliation(),
    base: Mapping[str, str] | None = None,
    after_units: Callable[..., Any] = lambda workspace, merged: {},
    open_session: Callable[[Workspace], ToolSession] | None = None,
) -> Integration:
    async def reviewed(workspace: Workspace, merged: Sequence[UnitOutcome]) -> Consolidation:
        return Consolidation(review(workspace))

    repairer = Repairer(AgentRunner(runtime or RepairingRuntime()), PROMPTS, open_session)  # type: ignore[arg-type]
    below = Workspace(EmptyTree())
    below.apply(base or {})
    integrator = Integrator(Gates(), repairer, reviewed, after_units)  # type: ignore[arg-type]
    return asyncio.run(integrator.integrate(below, outcomes))


def states(result: Integration) -> dict[str, tuple[str, str]]:
    return {each.unit.key: (each.status.value, each.reason) for each in result.outcomes}


def files(result: Integration) -> dict[str, str]:
    tree = result.workspace
    return {path: tree.read_text(path) or "" for path in tree.paths()}


def test_units_land_in_order_and_what_failed_does_not() -> None:
    left = replace(outcome("c", {"wiki/c.md": (None, "c")}), status=UnitStatus.LEFT)
    two = outcome("b", {"wiki/a.md": ("one\n\n\ntwo\n", "one\n\n\nTWO\n")})
    one = outcome("a", {"wiki/a.md": ("one\n\n\ntwo\n", "ONE\n\n\ntwo\n")})
    result = integrate([one, two, left], base={"wiki/a.md": "one\n\n\ntwo\n"})
    assert files(result) == {"wiki/a.md": "ONE\n\n\nTWO\n"}
    assert [each.status.value for each in result.outcomes] == ["done", "done", "left"]


@pytest.mark.table(
    ("writes", "landed", "status"),
    [
        ({"wiki/a.md": "both"}, {"wiki/a.md": "both", "wiki/b.md": "b"}, "done"),
        ({}, {"wiki/a.md": "first"}, "quarantined"),
    ],
)
def test_a_conflict_is_repaired_or_quarantined(writes: dict[str, str], landed: dict[str, str], status: str) -> None:
    one = outcome("one", {"wiki/a.md": (None, "first")})
    two = outcome("two", {"wiki/a.md": (None, "second"), "wiki/b.md": (None, "b")})
    runtime = RepairingRuntime(writes)
    result = integrate([one, two], runtime)
    assert files(result) == landed
    assert [each.status.value for each in result.outcomes] == ["done", status]
    assert set(runtime.asked) == {"conflict_repair"}


def test_a_repair_of_a_conflict_records_what_both_sides_say() -> None:
    one = replace(outcome("one", {"wiki/global/a.md": (None, "30 days")}), unit=WorkUnit("one", "one", ("new.md",)))
    two = replace(outcome("two", {"wiki/global/a.md": (None, "14 days")}), unit=WorkUnit("two", "two", ("old.md",)))
    names = ("docs/new.md", "docs/old.md")
    raw = {name: RawFile(name, "0", 1, lambda: b"x") for name in names}
    sides = [{"source": name, "text": name, "effect": "the page"} for name in names]
    runtime = RepairingRuntime({"wiki/global/a.md": "both"}, records=[{"topic": "a", "statements": sides}])
    result = integrate([one, two], runtime, open_session=lambda trial: ToolSession(trial, {}, raw=raw, whole_run=True))
    assert [each.sources for each in result.contradictions] == [names]
    assert "later change: unit two, from docs/old.md" in runtime.tasks[0]
    assert "earlier change: unit one, from docs/new.md" in runtime.tasks[0]
    failed = RepairingRuntime({"wiki/global/a.md": "30 days"}, records=runtime.records)
    landed = integrate([one, two], failed, open_session=lambda trial: ToolSession(trial, {}, raw=raw, whole_run=True))
    assert landed.contradictions == (), "a repair that came to nothing recorded nothing"


def test_a_definition_that_is_wrong_beside_others_is_quarantined_and_the_rest_lands() -> None:
    wrong = outcome("wrong", {"semantic-layer/shop/a.yaml": (None, "bad")})
    result = integrate([wrong, outcome("right", {"wiki/a.md": (None, "a")})])
    assert files(result) == {"wiki/a.md": "a"}
    assert states(result)["wrong"] == (
        "quarantined",
        "it is invalid together with the changes of other units: semantic-layer/shop/a.yaml is wrong",
    )


def test_the_unit_that_is_to_blame_at_the_end_is_taken_out() -> None:
    result = integrate([outcome("bad", {"wiki/x.md": (None, "bad")}), outcome("good", {"wiki/y.md": (None, "y")})])
    assert files(result) == {"wiki/y.md": "y"}
    assert states(result) == {
        "bad": ("quarantined", "the final checks found an error: wiki/x.md is wrong"),
        "good": ("done", ""),
    }


def test_only_what_agents_wrote_is_held_against_them() -> None:
    def written_after(workspace: Workspace, merged: Sequence[UnitOutcome]) -> dict[str, Any]:
        workspace.write("wiki/of-a-source.md", "jane")
        return {}

    units = [outcome("a", {"wiki/a.md": (None, "jane")}), outcome("b", {"wiki/b.md": (None, "b")})]
    result = integrate(units, after_units=written_after)
    assert files(result) == {"wiki/b.md": "b", "wiki/of-a-source.md": "jane"}
    assert states(result)["a"] == ("quarantined", "the final checks found an error: wiki/a.md is wrong")
    writes = {"wiki/a.md": "a", "wiki/of-a-source.md": "jane too"}
    repaired = integrate(units, RepairingRuntime(writes), after_units=written_after)
    assert "wiki/a.md" not in files(repaired)


def test_what_the_last_gates_found_and_a_repair_corrected_is_named() -> None:
    result = integrate([outcome("one", {"wiki/x.md": (None, "bad")})], RepairingRuntime({"wiki/x.md": "good"}))
    assert files(result) == {"wiki/x.md": "good"}
    assert result.repaired == ("wiki/x.md is wrong",)
    assert states(result) == {"one": ("done", "")}


@pytest.mark.table(
    ("page", "repaired", "status"),
    [("bad", "good", "done"), ("bad", "good, see ghost", "quarantined"), ("bad ghost", "good ghost", "done")],
)
def test_a_repair_brings_no_unknown_names_into_pages(page: str, repaired: str, status: str) -> None:
    units = [outcome("one", {"wiki/x.md": (None, page)})]
    assert states(integrate(units, RepairingRuntime({"wiki/x.md": repaired})))["one"][0] == status


@pytest.mark.table(
    ("sides", "merged", "status"),
    [
        (("one", "two"), "both", "done"),
        (("one", "two"), "both ghost", "quarantined"),
        (("one", "two ghost"), "both ghost", "done"),
        (("one ghost", "two"), "both ghost", "done"),
    ],
)
def test_a_repair_of_a_conflict_has_the_names_of_both_sides(sides: tuple[str, str], merged: str, status: str) -> None:
    units = [outcome(name, {"wiki/x.md": (None, text)}) for name, text in zip(("one", "two"), sides, strict=True)]
    assert states(integrate(units, RepairingRuntime({"wiki/x.md": merged})))["two"][0] == status


def test_what_the_review_brought_lands_without_it() -> None:
    reviewed = []

    def review(workspace: Workspace) -> Reconciliation:
        reviewed.append(workspace)
        workspace.write("wiki/z.md", "bad")
        return Reconciliation(steps=1)

    result = integrate([outcome("one", {"wiki/x.md": (None, "x")})], review=review)
    assert files(result) == {"wiki/x.md": "x"}
    assert (
        result.consolidation.reconciliation.problem
        == "the final checks found an error in its changes: wiki/z.md is wrong"
    )
    assert len(reviewed) == 1


def test_a_model_that_cannot_repair_is_the_reason() -> None:
    error = llm_error("billing", backend="anthropic")
    runtime = RepairingRuntime(error=error)
    one = outcome("one", {"wiki/a.md": (None, "first")})
    others = [outcome(key, {"wiki/a.md": (None, key)}) for key in ("two", "three")]
    result = integrate([one, *others], runtime)
    assert states(result)["two"] == ("quarantined", f"it conflicts with the changes of other units: {error.message}")
    assert states(result)["three"][0] == "quarantined"
    assert runtime.asked == ["conflict_repair"], "an error that ends the run begins no further repair"
