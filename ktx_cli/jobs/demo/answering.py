"""Asks the demo's semantic layer a question, and recomputes every row of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktx_cli.jobs.demo.questions import Question
from ktx_cli.jobs.semantic.asking import Told, ask_layer
from ktx_cli.jobs.semantic.questions import Question as LayerQuestion
from ktx_cli.project.config import load_config
from ktx_cli.project.layout import Layout


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and its answer."""

    question: Question
    answer: Told

    def to_json(self) -> dict[str, Any]:
        """Return both as they stand in the envelope."""
        return {
            "question": self.question.title,
            "query": dict(self.question.query),
            "sql": self.answer.sql,
            "columns": list(self.answer.columns),
            "answer": [list(row) for row in self.answer.rows],
            "receipt": dict(self.answer.receipt),
        }


def answered(folder: Path, question: Question, environ: Mapping[str, str]) -> Asked:
    """Return the verified answer; raises as `ask_layer`, and `KtxError` where recomputed numbers differ."""
    layout = Layout(folder)
    asked = LayerQuestion(question.query, question.connection, verified=True)
    answer = ask_layer(layout, load_config(layout.config).config, asked, environ=environ, formats=True)
    error = answer.error()
    if error is not None:
        raise error
    return Asked(question, answer)
