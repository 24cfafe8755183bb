"""The rules of `ktx lint`: what a rule is, where the rules are found, and which of them a person selects."""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Final

from ktx_cli.core import Command, Diagnostic, Hint, Location, Severity, UsageError, did_you_mean

if TYPE_CHECKING:
    from ktx_cli.jobs.check.lint.project import LintedProject

Files = Mapping[str, str | None]
"""Path -> text of files of a project; None: there is no such file."""

Check = Callable[["LintedProject"], Iterable[Diagnostic]]

EXAMPLE_PROJECT: Final[Files] = {
    "ktx.yaml": "connections:\n  warehouse:\n    driver: sqlite\n    path: shop.sqlite\n",
    "semantic-layer/warehouse/_schema/shop.yaml": """\
tables:
  orders:
    table: shop.orders
    descriptions: {user: One row per order}
    columns:
      - {name: id, type: number, pk: true, descriptions: {user: Number of the order}}
      - {name: customer_id, type: number, descriptions: {user: Who ordered}}
      - {name: amount, type: number, descriptions: {user: Price paid in euros}}
      - {name: ordered_at, type: time, descriptions: {user: When the order was placed}}
    joins:
      - {to: customers, on: customer_id = customers.id, relationship: many_to_one, source: formal}
  customers:
    table: shop.customers
    descriptions: {user: One row per customer}
    columns:
      - {name: id, type: number, pk: true, descriptions: {user: Number of the customer}}
      - {name: country, type: string, descriptions: {user: Country of the billing address}}
    joins:
      - {to: orders, on: id = orders.customer_id, relationship: one_to_many, source: formal}
""",
    "semantic-layer/warehouse/orders.yaml": """\
name: orders
measures:
  - {name: revenue, expr: sum(amount), description: Sum of all prices paid}
""",
    "semantic-layer/warehouse/customers.yaml": """\
name: customers
measures:
  - {name: buyers, expr: count(id), description: Number of customers}
""",
    "wiki/global/revenue.md": """\
---
summary: What revenue means
sl_refs: [orders.revenue]
---

Revenue is `orders.revenue`; it includes taxes.
""",
}
"""The project that the examples of rules change; no rule has anything to say about it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of `ktx lint`: one module in `rules/` has one, or the rules that share a checker."""

    code: str
    """For example `KTX101`. A code keeps its meaning; a new rule gets a new code."""
    name: str
    """For example `undescribed-table`."""
    severity: Severity
    """How bad a diagnostic of this rule usually is."""
    summary: str
    """What the rule finds, in one sentence."""
    explanation: str
    """Why it matters, and what to do about it."""
    check: Check
    """Return the diagnostics of a project."""
    bad: Files
    """Changes to the example project for which the rule reports something."""
    good: Files
    """Changes to the example project for which it reports nothing; they are committed before those of `bad`."""
    alias: str | None = None
    """The code `ktx wiki lint` or `ktx sl validate` reports the same under."""
    on_demand: bool = False
    """Whether an option of the command turns the rule on, whatever `--select` and `--ignore` say."""

    @property
    def group(self) -> str:
        """What the codes of rules about the same subject begin with: `KTX1`."""
        return self.code[:4]

    def diagnostic(self, message: str, location: Location, hint: str, severity: Severity | None = None) -> Diagnostic:
        """Return a diagnostic of this rule; `severity`: another than the usual one."""
        return Diagnostic(self.code, severity or self.severity, message, location, hint)


COVERAGE: Final = "KTX1"
WIKI: Final = "KTX2"
LAYER: Final = "KTX3"
GROUPS: Final[Mapping[str, str]] = {
    COVERAGE: "Coverage of descriptions",
    WIKI: "The wiki",
    LAYER: "The semantic layer",
}
"""What the codes of a group begin with, and what its rules are about."""


@functools.cache
def all_rules() -> Mapping[str, Rule]:
    """Return every rule by its code, in their order."""
    return {rule.code: rule for rule in sorted(defined_rules(), key=lambda rule: rule.code)}


def defined_rules() -> list[Rule]:
    """Return the rules that the modules in `rules/` define: one as `RULE`, or those that share a checker as `RULES`."""
    from ktx_cli.jobs.check.lint import rules

    modules = [import_module(f"{rules.__name__}.{module.name}") for module in pkgutil.iter_modules(rules.__path__)]
    return [rule for module in modules for rule in (module.RULES if hasattr(module, "RULES") else (module.RULE,))]


def shared_rule(code: str, alias: str, severity: Severity, summary: str, explanation: str, bad: Files) -> Rule:
    """Return a rule that reports what its group's checker has under the code `alias`."""
    check = _check(code, lambda other: other == alias)
    return Rule(code, alias.replace("_", "-"), severity, summary, explanation, check, bad=bad, good={}, alias=alias)


def other_rule(code: str, name: str, summary: str, explanation: str) -> Rule:
    """Return a rule that reports what its group's checker has under codes that no rule names."""

    def is_other(other: str) -> bool:
        return all(rule.alias != other for rule in all_rules().values() if rule.group == code[:4])

    return Rule(code, name, Severity.ERROR, summary, explanation, _check(code, is_other), bad={}, good={})


def _check(code: str, wants: Callable[[str], bool]) -> Check:
    """Return a check that gives the diagnostics of `ktx wiki lint` or `ktx sl validate` the code of a rule."""

    def of_pages(project: LintedProject) -> Iterator[Diagnostic]:
        for problem in project.page_problems:
            if wants(problem.code):
                yield replace(problem, code=code, hint=problem.hint or Hint(f"correct {problem.path}"))

    def of_layers(project: LintedProject) -> Iterator[Diagnostic]:
        for connection, problem in project.layer_problems:
            if wants(problem.code):
                known = problem.location if problem.path else Location()
                location = known.within(object=problem.location.object, connection=connection)
                hint = problem.hint or Hint(f"correct {problem.path}")
                yield replace(problem, code=code, location=location, hint=hint)

    return {WIKI: of_pages, LAYER: of_layers}[code[:4]]


@dataclass(frozen=True, slots=True)
class Selection:
    """The rules a person selects by code, or by what codes begin with (`KTX2`); nothing selected means all."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @classmethod
    def of(cls, select: Sequence[str], ignore: Sequence[str]) -> Selection:
        """Return the selection of codes that may be separated by commas; `UsageError` for what begins no code."""
        return cls(tuple(_codes(select, "--select")), tuple(_codes(ignore, "--ignore")))

    def __contains__(self, code: object) -> bool:
        if not isinstance(code, str):
            return False
        return (not self.select or code.startswith(self.select)) and not (self.ignore and code.startswith(self.ignore))

    def rules(self) -> list[Rule]:
        """Return the selected rules by code, and those an option turns on."""
        return [rule for rule in all_rules().values() if rule.on_demand or rule.code in self]


def _codes(values: Sequence[str], option: str) -> list[str]:
    codes = [code.strip().upper() for value in values for code in value.split(",") if code.strip()]
    known = all_rules()
    for code in codes:
        if not any(other.startswith(code) for other in known):
            near = did_you_mean(code, known)
            hint = Command("lint", option, near) if near else Command("lint", option, "KTX2")
            raise UsageError(f"{option}: no rule has the code `{code}`", hint=hint, details={"codes": list(known)})
    return codes
