"""Every rule of `ktx lint` finds what its examples show, and a new rule is one file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktx_cli.jobs.check.lint import rules
from ktx_cli.jobs.check.lint.lint import GROUPS, Files, Rule, all_rules, example_project
from tests.jobs.check.lint.conftest import Project

WITHOUT_EXAMPLE = {"KTX208", "KTX299", "KTX399"}
"""A file without permissions cannot be written as an example; what has no rule yet has no example either."""
OPTIONS = {"KTX106": 50.0}
"""`--min-coverage` of the rules that need it."""


def write(project: Project, files: Files) -> None:
    for path, text in files.items():
        if text is None:
            (project.root / path).unlink()
        else:
            project.write(path, text)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the example project, committed."""
    project = Project.__new__(Project)
    project.root = tmp_path_factory.mktemp("example")
    write(project, example_project())
    project.git("init", "-q")
    project.commit("first")
    return project.root


@pytest.fixture
def shop(project: Project, example: Path) -> Project:
    shutil.rmtree(project.root)
    shutil.copytree(example, project.root)
    return project


def test_no_rule_reports_anything_about_the_example_project(shop: Project) -> None:
    assert [str(each) for each in shop.found()] == []
    assert shop.warnings == []


@pytest.mark.parametrize("rule", list(all_rules().values()), ids=lambda rule: rule.code)
def test_a_rule_reports_its_bad_example_and_not_its_good_one(shop: Project, rule: Rule) -> None:
    wanted = OPTIONS.get(rule.code)
    if rule.good:
        write(shop, rule.good)
        shop.commit("good")
        assert shop.lint(rule.code, min_coverage=wanted).diagnostics == ()
    write(shop, rule.bad)
    found = shop.lint(rule.code, min_coverage=wanted).diagnostics
    assert {each.code for each in found} == ({rule.code} if rule.code not in WITHOUT_EXAMPLE else set())
    assert {each.severity for each in found} <= {rule.severity}
    assert all(each.hint for each in found)


def test_rules_are_documented_and_named_like_their_modules() -> None:
    for rule in all_rules().values():
        assert rule.group in GROUPS, rule.code
        for text in (rule.summary, rule.explanation):
            assert text.endswith(".") and text[0].isupper() | (text[0] == "`") | text.startswith("ktx"), rule.code


NEW_RULE = '''
"""KTX107: a table has a name that says nothing."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Diagnostic, Severity
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the tables that are called `t` and a number."""
    for layer in project.described_layers:
        for source in layer.sources():
            if source.name.startswith("t") and source.name[1:].isdecimal():
                yield RULE.diagnostic(f"the name of table `{source.name}` says nothing",
                                      layer.location(source, source), "rename it")


RULE = Rule("KTX107", "nameless-table", Severity.INFO, "A table has a name that says nothing.",
            "Give it a name that says what a row is.", check,
            bad={"semantic-layer/warehouse/_schema/more.yaml":
                 "tables: {t1: {table: shop.t1, columns: [{name: id, type: number, pk: true}]}}"},
            good={})
'''


@pytest.fixture
def extended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of rules with one more file."""
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "ktx107_nameless_table.py").write_text(NEW_RULE)
    monkeypatch.setattr(rules, "__path__", [*rules.__path__, str(folder)])
    all_rules.cache_clear()
    yield
    all_rules.cache_clear()


@pytest.mark.usefixtures("extended")
def test_one_more_file_is_one_more_rule_that_runs_and_is_documented(shop: Project) -> None:
    from docs.generate import lint_page

    rule = all_rules()["KTX107"]
    write(shop, rule.bad)
    (found,) = shop.found("KTX107")
    assert (found.code, found.message, found.location.line) == ("KTX107", "the name of table `t1` says nothing", 1)
    assert "### `KTX107` nameless-table" in lint_page()
    assert "Give it a name that says what a row is." in lint_page()
