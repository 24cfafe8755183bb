"""The gates for a change, which find definitions, metric tests and references that were valid before but not after."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ktx_cli.agent_tools import Layers, figures_nobody_states, invented_names, page_artifact, raw_text
from ktx_cli.core import Diagnostic, KtxError, Location, ResultWarning, Severity
from ktx_cli.documents import RawFile
from ktx_cli.engine.work import SourceWork, UnitOutcome, UnitStatus
from ktx_cli.project import SEMANTIC_NAME, KtxConfig, Layout, Tree, WorkingTree, Workspace
from ktx_cli.wiki import PRIVATE, Page, check_pages, hosts_in, hosts_of, lint_page, parse, place_of, warnings_of

if TYPE_CHECKING:
    from ktx_cli.semantic import CheckData, MetricTest, Model, TestResult

RunTests = Callable[["Model", "Model"], list[Diagnostic]]
"""Compares a semantic layer before and after a change, and returns the tests that the change made fail."""

Warn = Callable[[ResultWarning], None]


@dataclass(frozen=True)
class Gates:
    """The checks that every change must pass before it is committed."""

    base: Tree
    """The base of the comparison: errors that already exist here do not count against the change."""
    layers: Layers
    """The semantic layers of the databases."""
    run_tests: RunTests = lambda before, after: []
    check_data: CheckData | None = None
    """Checks a change on the database; None: no database is queried."""
    warn: Warn = lambda warning: None

    def definitions(self, tree: Tree, touched: Collection[str]) -> list[Diagnostic]:
        """Return the errors of the semantic layer that the touched files of a tree introduced, by location."""
        found: list[Diagnostic] = []
        for connection in self._touched(touched):
            known = {_identity(each) for each in _errors(self.layers.problems(self.base, connection))}
            new = _errors(self.layers.problems(tree, connection))
            found += [each for each in new if _identity(each) not in known]
        return sorted(found, key=lambda each: (each.path, each.line, each.code, each.message))

    def everything(self, tree: Tree, touched: Collection[str], by_agents: Collection[str] = ()) -> list[Diagnostic]:
        """Return the errors in definitions and references, also in untouched pages, and the failing tests.

        If definitions are invalid, nothing is checked on the database and no tests are run. `by_agents`: the touched
        files that agents wrote; their pages must not introduce secrets or people's contact data.
        """
        models = {each: self.layers.model(tree, each) for each in self.layers.dialects}
        known = {_identity(each) for each in check_pages(self.base, self._models, touched)}
        pages = check_pages(tree, models, touched, before=self._models)
        wrong = self.definitions(tree, touched)
        if not wrong:
            changed = [(self._models[name], models[name]) for name in self._touched(touched)]
            wrong = [each for before, after in changed for each in self._on_data(before, after)]
            wrong += [each for before, after in changed for each in self.run_tests(before, after)]
        private = (each for path in sorted(by_agents) for each in _found(path, self.base, tree, {}))
        return [
            *wrong,
            *(each for each in pages if _identity(each) not in known),
            *(each for each in private if each.code in PRIVATE),
        ]

    def invented(
        self, before: Tree, after: Tree, paths: Collection[str], texts: Iterable[str] = ()
    ) -> list[Diagnostic]:
        """Return the unknown names that a repair introduced into pages: see `invented_names`.

        Units look names up before they write them; a repair has no tools for that.
        """
        pages = [path for path in paths if place_of(path) is not None]
        if not pages:
            return []
        models = {each: self.layers.model(after, each) for each in self.layers.dialects}
        return invented_names(before, after, pages, models, texts)

    def _on_data(self, before: Model, after: Model) -> list[Diagnostic]:
        """Return the errors that the database finds in a change; statements that were not run are warnings."""
        if self.check_data is None:
            return []
        from ktx_cli.semantic import NOT_CHECKED

        found = self.check_data(before, after)
        for each in found:
            if each.code == NOT_CHECKED:
                message = f"connection `{after.connection}`: {each.message}"
                self.warn(ResultWarning(NOT_CHECKED, message, hint=each.hint, connection=after.connection))
        return _errors(found)

    @functools.cached_property
    def _models(self) -> Mapping[str, Model]:
        return {each: self.layers.model(self.base, each) for each in self.layers.dialects}

    def _touched(self, paths: Collection[str]) -> list[str]:
        """Return the connections whose semantic layers contain one of the files."""
        return [each for each in self.layers.dialects if any(path.startswith(folder(each)) for path in paths)]


def folder(connection: str) -> str:
    """Return the path prefixes of a connection's definitions."""
    return f"{SEMANTIC_NAME}/{connection}/"


def _errors(problems: Iterable[Diagnostic]) -> list[Diagnostic]:
    return [each for each in problems if each.severity is Severity.ERROR]


def _identity(finding: Diagnostic) -> tuple[str, str, str]:
    """Return the identity of a diagnostic, which does not change when lines move."""
    return finding.path, finding.code, finding.message


class MetricGate:
    """Runs a connection's tests on its database, for two states of the semantic layer."""

    def __init__(
        self, layout: Layout, config: KtxConfig, environ: Mapping[str, str], warn: Callable[[ResultWarning], None]
    ) -> None:
        self._layout, self._config, self._environ, self._warn = layout, config, environ, warn
        self._warned: set[str] = set()

    def __call__(self, before: Model, after: Model) -> list[Diagnostic]:
        """Return the tests that fail after the change but did not fail before; new tests count.

        If the database cannot be queried, that is a warning and its tests are not run.
        """
        tests = [(source.name, test) for source in after.sources.values() for test in source.tests]
        try:
            return self._failing(before, after, tests) if tests else []
        except KtxError as error:
            self._not_run(after.connection, error)
            return []

    def _failing(self, before: Model, after: Model, tests: Sequence[tuple[str, MetricTest]]) -> list[Diagnostic]:
        from ktx_cli.protection import source_guard
        from ktx_cli.semantic import guard_of, run_test

        tree = WorkingTree(self._layout.root)
        shown, shown_before = source_guard(after, tree), source_guard(before, tree)
        guard = guard_of(self._layout, self._config, after.connection, after)
        failing: list[Diagnostic] = []
        with guard.open(self._config, layout=self._layout, environ=self._environ) as connector:
            for name, test in tests:
                result = run_test(after, name, test, connector, guard=shown)
                if result.passed:
                    continue
                known = _test_of(before, name, test.name)
                if known is None or run_test(before, name, known, connector, guard=shown_before).passed:
                    failing.append(_finding(result))
        return failing

    def _not_run(self, connection: str, error: KtxError) -> None:
        if connection not in self._warned:
            self._warned.add(connection)
            message = f"connection `{connection}`: the tests of its sources were not run: {error.message}"
            self._warn(ResultWarning("tests_not_run", message, hint=error.hint, connection=connection))


def _test_of(model: Model, source: str, name: str) -> MetricTest | None:
    tests = model.sources[source].tests if source in model.sources else ()
    return next((test for test in tests if test.name == name), None)


def _finding(result: TestResult) -> Diagnostic:
    place = result.test.place
    got = result.error.message if result.error is not None else f"got {result.got!r}, expected {result.expected!r}"
    return Diagnostic(
        "test_fails",
        Severity.ERROR,
        f"the test `{result.test.name}` of `{result.source}` fails: {got}",
        Location() if place is None else place,
        "the definitions must not change the results of tests",
    )


def page_warnings(
    works: Sequence[SourceWork], outcomes: Iterable[UnitOutcome], before: Tree, after: Workspace
) -> list[ResultWarning]:
    """Return the lint diagnostics for the pages changed by an overlay, without those that already existed `before`.

    A link is expected if a raw file that a unit named for the page, now or in an earlier run, contains it; a large
    number is expected if any file of the run contains it.
    """
    files = _files(works, outcomes)
    found = [finding for path in sorted(after.changes()) for finding in _found(path, before, after, files)]
    for path in sorted(after.changes()):
        page = _page(path, after)
        if page is not None and page_artifact(page.scope, page.key) in files:
            texts = (_text(file) for work in works for file in work.snapshot.files.values())
            found += figures_nobody_states(page, texts, _page(path, before))
    return warnings_of(found)


def _text(file: RawFile) -> str:
    try:
        return raw_text(file)
    except KtxError:  # no number can come from a file that nobody can read
        return ""


def _found(path: str, before: Tree, after: Tree, files: Mapping[str, list[RawFile]]) -> list[Diagnostic]:
    page = _page(path, after)
    if page is None:
        return []
    old = _page(path, before)
    hosts = hosts_of(files.get(page_artifact(page.scope, page.key), ())) | (
        frozenset() if old is None else hosts_in(old.text)
    )
    return list(lint_page(page, hosts, old))


def _page(path: str, tree: Tree) -> Page | None:
    place, content = place_of(path), tree.read(path)
    found = None if place is None or content is None else parse(*place, content)
    return found if isinstance(found, Page) else None


def _files(works: Sequence[SourceWork], outcomes: Iterable[UnitOutcome]) -> Mapping[str, list[RawFile]]:
    """Return artifact -> those of the raw files it comes from that still exist."""
    by_source = {(work.connection, work.kind): work for work in works}
    named: list[tuple[str, SourceWork, Iterable[str]]] = [
        (artifact, work, (path,))
        for work in works
        for path, state in work.delivered.files.items()
        for artifact in state.artifacts
    ]
    for each in outcomes:
        work = by_source.get((each.connection, each.kind))
        if work is not None and each.status is UnitStatus.DONE:
            named += [(artifact, work, paths) for artifact, paths in each.produced().items()]
    found: dict[str, list[RawFile]] = {}
    for artifact, work, paths in named:
        files = work.snapshot.files
        found.setdefault(artifact, []).extend(files[path] for path in paths if path in files)
    return found
