"""KTX343: a semantic layer text contains a person's contact or payment data."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Diagnostic, Severity
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule
from ktx_cli.privacy import personal_data
from ktx_cli.semantic import Column, Measure, Segment, Source


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield the descriptions, questions and synonyms of sources and their parts that contain such data."""
    for layer in project.described_layers:
        for source in layer.sources():
            parts: list[Source | Column | Measure | Segment] = [source]
            parts += [*source.columns.values(), *source.measures.values(), *source.segments.values()]
            for part in parts:
                spot = next(personal_data(text), None) if _may_have(text := _text(part)) else None
                if spot is not None:
                    name = source.name if part is source else f"{source.name}.{part.name}"
                    message = f"a text of `{name}` contains {spot.message}"
                    yield RULE.diagnostic(message, layer.location(source, part), spot.hint)


def _may_have(text: str) -> bool:
    """Whether a text has a character that occurs in all such data; most descriptions have none."""
    return "@" in text or any(map(str.isdigit, text))


def _text(part: Source | Column | Measure | Segment) -> str:
    questions = () if isinstance(part, Column) else part.questions
    return "\n".join((part.description or "", part.label or "", *questions, *part.synonyms))


RULE = Rule(
    "KTX343",
    "private-description",
    Severity.WARNING,
    "A description in the semantic layer contains a person's contact or payment data.",
    "The semantic layer is committed to git and shown to agents. Name the team or the role instead. If the text comes "
    "from a database or a tool, correct it there, or write your own description. Agents cannot write such data.",
    check,
    bad={
        "semantic-layer/warehouse/orders.yaml": """\
name: orders
measures:
  - {name: revenue, expr: sum(amount), description: Sum of all prices paid; ask jane.doe@acme-shop.com}
"""
    },
    good={
        "semantic-layer/warehouse/orders.yaml": """\
name: orders
measures:
  - {name: revenue, expr: sum(amount), description: Sum of all prices paid since 2024; ask finance@acme-shop.com}
"""
    },
)
