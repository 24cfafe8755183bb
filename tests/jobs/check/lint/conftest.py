"""A project of plain files: two tables, an overlay with measures, nothing scanned and no database."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ktx_cli.core.diagnostics import Diagnostic
from ktx_cli.jobs.check.lint.lint import LintReport, Selection, lint_project
from ktx_cli.project.config.file import load_config
from ktx_cli.project.layout import Layout
from tests.jobs.conftest import Built

SHARD = """\
tables:
  orders:
    table: shop.orders
    descriptions: {user: One row per order}
    columns:
      - {name: id, type: number, pk: true, descriptions: {db: The order}}
      - {name: customer_id, type: number, descriptions: {ktx: Refers to customers}}
      - {name: status, type: string}
      - {name: amount, type: number, descriptions: {ai: What was paid}}
    joins:
      - {to: customers, on: customer_id = customers.id, relationship: many_to_one, source: formal}
  customers:
    table: shop.customers
    columns:
      - {name: id, type: number, pk: true}
      - {name: country, type: string}
    joins:
      - {to: orders, on: id = orders.customer_id, relationship: one_to_many, source: formal}
"""
OVERLAY = """\
name: orders
measures:
  - {name: revenue, expr: sum(amount), description: What customers paid}
  - {name: mean_paid, expr: avg(amount), filter: status = 'paid', description: Of paid orders}
segments:
  - {name: paid, expr: status = 'paid'}
"""
PAGE = """\
---
summary: What revenue means
sl_refs: [orders.revenue]
---

Revenue is `orders.revenue`; `orders.status` says what was paid.
"""
CONFIG = "connections:\n  warehouse:\n    driver: sqlite\n    path: shop.sqlite\n"


class Project:
    """The files of the project, and what `ktx lint` finds in them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.layout = Layout(root)
        self.write("ktx.yaml", CONFIG)
        self.write("semantic-layer/warehouse/_schema/shop.yaml", SHARD)
        self.write("semantic-layer/warehouse/orders.yaml", OVERLAY)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def change(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text()
        assert old in text
        self.write(path, text.replace(old, new))

    def commit(self, message: str) -> None:
        self.git("add", ".")
        self.git("commit", "-q", "-m", message)

    def git(self, *words: str) -> str:
        identity = ("-c", "user.name=User", "-c", "user.email=user@example.com")
        done = subprocess.run(
            ["git", *identity, *words], cwd=self.root, capture_output=True, text=True, check=True, env=dict(os.environ)
        )
        return done.stdout

    def lint(self, *select: str, connection: str | None = None, min_coverage: float | None = None) -> LintReport:
        config = load_config(self.layout.config).config
        found, self.warnings = lint_project(
            *(self.layout, config), connection=connection, selection=Selection.of(select, ()), min_coverage=min_coverage
        )
        return found

    def found(self, *select: str) -> list[Diagnostic]:
        return list(self.lint(*select).diagnostics)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder)


def commit_all(root: Path) -> None:
    project = Project(root)
    project.write("wiki/global/revenue.md", PAGE)
    project.git("init", "-q")
    project.commit("first")


@pytest.fixture
def committed(project: Project, built: Built) -> Project:
    """The project in a repository, with a page that was committed with it."""
    built(project.root, commit_all)
    return project


Change = Callable[[Project], None]
