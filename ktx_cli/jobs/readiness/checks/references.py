"""Checks of what people and agents read: references of wiki pages lead somewhere, definitions have no errors."""

from __future__ import annotations

from collections.abc import Sequence

from ktx_cli.context.semantic.model import Problem
from ktx_cli.context.wiki.model import Finding as WikiFinding
from ktx_cli.core.text import escaped
from ktx_cli.jobs.readiness.model import CheckContext, Finding, Level
from ktx_cli.jobs.semantic.broken import broken_now, said, way_out
from ktx_cli.jobs.semantic.layers import layer_ids, stray_problems
from ktx_cli.jobs.semantic.validating import validate_layers
from ktx_cli.jobs.wiki import lint_wiki

WIKI, SEMANTIC = "wiki", "semantic"
MOST = 20
"""How many findings of a kind are told one by one."""


def check_wiki(context: CheckContext) -> list[Finding]:
    """Every reference of a wiki page leads somewhere, as `ktx wiki lint` looks at it."""
    linted = lint_wiki(context.layout, context.loaded.config)
    found = [each for each in linted.findings if each.code.startswith("dangling_")]
    if not found:
        return [Finding(WIKI, Level.OK, "every reference of the wiki leads somewhere")]
    findings = [Finding(WIKI, Level.WARN, str(each), _edit(each), file=each.path, line=each.line) for each in found]
    return _bounded(findings, "ktx wiki lint")


def _edit(found: WikiFinding) -> str:
    return f"in {found.path} line {found.line}: {found.hint}" if found.hint else f"edit {found.path} line {found.line}"


def check_semantic(context: CheckContext) -> list[Finding]:
    """No definition of the semantic layer has an error, as `ktx sl validate` looks at the files."""
    found = validate_layers(context.layout, context.loaded.config, environ=context.environ, data=False)
    errors = [problem for _, problem in found.problems if problem.severity == "error"]
    if not errors:
        return _without_errors(context)
    return _bounded([_of_problem(each, Level.FAIL) for each in errors], "ktx sl validate")


def _without_errors(context: CheckContext) -> list[Finding]:
    if not layer_ids(context.layout):
        return [Finding(SEMANTIC, Level.SKIP, "there is no semantic layer yet")]
    return [Finding(SEMANTIC, Level.OK, "the definitions have no errors")]


def _of_problem(problem: Problem, level: Level) -> Finding:
    file, line = escaped(problem.place.path), problem.place.line
    hint = f"in {file} line {line}: {problem.hint}" if problem.hint else f"correct {file} line {line}"
    return Finding(SEMANTIC, level, f"{file}:{line}: {problem.message}", hint, file=file, line=line)


def check_compiled(context: CheckContext) -> list[Finding]:
    """Every definition compiles, as the last run found or, where files changed since, as they are now.

    Files of no connection are named too: they close every database to raw SQL.
    """
    strays = stray_problems(context.layout, context.loaded.config)
    findings = _bounded([_of_problem(each, Level.WARN) for each in strays], "ktx sl validate")
    broken = broken_now(context.layout, context.loaded.config)
    if broken:
        first = broken[0]
        message, hint = said(broken, "do not compile"), way_out(broken)
        findings.append(Finding(SEMANTIC, Level.WARN, message, hint, file=first.path, line=first.line))
    return findings or _without_errors(context)


def _bounded(findings: Sequence[Finding], command: str) -> list[Finding]:
    """Return the first findings, and one that says how many more there are."""
    kept = list(findings[:MOST])
    if len(findings) > MOST:
        first = findings[0]
        kept.append(Finding(first.check, first.level, f"{len(findings) - MOST} more: {command} lists them", command))
    return kept
