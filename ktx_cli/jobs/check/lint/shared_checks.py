"""Checks of the rules that report what the checkers of `ktx wiki lint` and `ktx sl validate` find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ktx_cli.core import Diagnostic, Hint, Location, Severity
from ktx_cli.jobs.check.lint.project import LintedProject
from ktx_cli.jobs.check.lint.registry import LAYER, WIKI, Check, Files, Rule, all_rules


def shared_rule(code: str, alias: str, severity: Severity, summary: str, explanation: str, bad: Files) -> Rule:
    """Return a rule that reports the diagnostics its group's checker has under the code `alias`."""
    check = _check(code, lambda other: other == alias)
    return Rule(code, alias.replace("_", "-"), severity, summary, explanation, check, bad=bad, good={}, alias=alias)


def other_rule(code: str, name: str, summary: str, explanation: str) -> Rule:
    """Return a rule that reports what its group's checker has under codes that no rule names."""

    def is_other(other: str) -> bool:
        return all(rule.alias != other for rule in all_rules().values() if rule.group == code[:4])

    return Rule(code, name, Severity.ERROR, summary, explanation, _check(code, is_other), bad={}, good={})


def _check(code: str, wants: Callable[[str], bool]) -> Check:
    reported = {WIKI: _of_pages, LAYER: _of_layers}[code[:4]]
    return lambda project: (replace(each, code=code) for each in reported(project) if wants(each.code))


def _of_pages(project: LintedProject) -> Iterator[Diagnostic]:
    for problem in project.page_problems:
        yield replace(problem, hint=problem.hint or Hint(f"correct {problem.path}"))


def _of_layers(project: LintedProject) -> Iterator[Diagnostic]:
    for connection, problem in project.layer_problems:
        known = problem.location if problem.path else Location()
        location = known.within(object=problem.location.object, connection=connection)
        yield replace(problem, location=location, hint=problem.hint or Hint(f"correct {problem.path}"))
