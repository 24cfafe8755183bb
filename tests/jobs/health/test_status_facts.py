"""The facts beside readiness: counts that a run keeps, the index beside the files, git, embeddings."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.agent_tools.searcher import contents_of
from ktx_cli.jobs import counts as counting
from ktx_cli.jobs.counts import Counts, counted_by_runs, counts_of, keep_counts
from ktx_cli.jobs.health import facts
from ktx_cli.jobs.health.doctor import CHECKS
from ktx_cli.jobs.health.model import CheckContext
from ktx_cli.jobs.health.model_checks import MODELS
from ktx_cli.jobs.health.search_facts import embedding_facts, index_facts, quick_signatures
from ktx_cli.jobs.health.status import AFTER, BEFORE, BESIDE, READINESS, GitFacts, git_facts, project_status
from ktx_cli.project.config.file import load_config
from ktx_cli.project.layout import Layout
from ktx_cli.project.repository.store import Repository
from ktx_cli.scan import INFERRED_JOINS
from ktx_cli.scan.decisions.reader import decisions_path
from ktx_cli.scan.decisions.record import points_bytes
from ktx_cli.semantic.guarded import load_layer, store_layers
from ktx_cli.semantic.store.layer import declared_entries

ORDERS = "semantic-layer/shop/orders.yaml"


@pytest.fixture
def shop(ingested_project: Path) -> Path:
    return ingested_project


@pytest.fixture
def demo(demo_project: Path, tmp_path: Path) -> Path:
    """A copy of what `ktx demo` builds."""
    return Path(shutil.copytree(demo_project, tmp_path / "demo", symlinks=True))


def test_status_counts_the_inferred_joins_that_a_scan_counts() -> None:
    """Its own list spares it the modules of a review."""
    assert set(facts._ACTIVE) == {each.value for each in INFERRED_JOINS}


def context_of(project: Path) -> CheckContext:
    layout = Layout(project)
    return CheckContext(layout, load_config(layout.config), {})


def counted(project: Path, connection: str) -> Counts:
    context = context_of(project)
    return counts_of(context, connection, counted_by_runs(context.layout))[0]


def test_status_runs_the_checks_that_doctor_runs() -> None:
    doctors = {check.id: check.run for check in CHECKS}
    ours: dict[str, Callable[..., Any]] = {**BEFORE, **AFTER, **BESIDE}
    assert {name: doctors[name] for name in ours} == ours
    assert MODELS in doctors
    assert set(READINESS) == {*BEFORE, MODELS, *AFTER}


def test_what_is_counted_is_what_the_semantic_layer_has(demo_project: Path) -> None:
    context = context_of(demo_project)
    model = load_layer(context.layout, context.loaded.config, "warehouse")
    counts, problems = counts_of(context, "warehouse", {})
    sources = list(model.sources.values())
    assert problems == []
    assert counts.sources + counts.own_sources == len(sources)
    assert counts.columns == sum(len(each.columns) for each in sources)
    defined = (measure for each in sources for measure in each.measures.values())
    assert counts.measures == sum(not measure.is_proposed for measure in defined)
    joins = [(each.name, join) for each in sources for join in each.joins]
    edges = {frozenset(frozenset(((name, own), (join.to, other))) for own, other in join.pairs) for name, join in joins}
    assert counts.joins == len(edges), "each once, whichever sides it is written from"


def test_a_run_keeps_the_counts_and_status_takes_them(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh, _ = counts_of(context_of(shop), "shop", {})
    monkeypatch.setattr(counting, "_counted", lambda *_: pytest.fail("nothing that is counted has changed"))
    assert counted(shop, "shop") == fresh
    (shop / decisions_path("shop")).write_bytes(points_bytes([]))
    assert counted(shop, "shop") == fresh


def test_what_was_edited_since_is_counted_again_and_not_written(shop: Path) -> None:
    before = counted(shop, "shop")
    kept = Layout(shop).cache / "counts.json"
    text = kept.read_bytes()
    (shop / ORDERS).write_text("name: orders\nmeasures:\n  - {name: number, expr: count(*)}\n")
    assert counted(shop, "shop").measures == before.measures + 1
    assert kept.read_bytes() == text
    layout = Layout(shop)
    keep_counts(layout, load_config(layout.config).config)
    assert json.loads(kept.read_bytes())["connections"]["shop"]["counts"]["measures"] == 1


@pytest.mark.parametrize(
    "more",
    [
        "columns:\n  - {name: id, type: number}\n  - {name: twice, type: number, expr: id * 2}\n",
        "columns:\n  - {name: twice, type: number, expr: id * 2}\n  - {name: twice, type: number, expr: id * 3}\n",
        "measures:\n  - {name: number, expr: count(*)}\n  - {name: total, expr: sum(id)}\n",
        "joins:\n  - {to: customers, on: orders.id = customers.id, relationship: many_to_one}\n",
        "disable_joins: [customer_id = customers.id]\n",
        "table: main.orders\ngrain: [id]\ncolumns:\n  - {name: id, type: number}\n",
        "measures: none\njoins: 1\n",
    ],
)
@pytest.mark.parametrize("is_stored", [True, False])
def test_the_counts_from_a_store_are_those_of_the_files(
    shop: Path, monkeypatch: pytest.MonkeyPatch, more: str, is_stored: bool
) -> None:
    context = context_of(shop)
    (shop / ORDERS).write_text(f"name: orders\n{more}")
    (shop / ORDERS).with_name("more.yaml").write_text("name: orders\nmeasures:\n  - {name: number, expr: count(*)}\n")
    if is_stored:  # else both files are read beside the store
        store_layers(context.layout, context.loaded.config)
    entries = declared_entries(context.layout, "shop")
    assert entries is not None
    assert {each.source for each in entries if not each.is_generated} == {"orders"}
    found = counts_of(context, "shop", {})
    monkeypatch.setattr(counting, "declared_entries", lambda *_: None)
    assert counts_of(context_of(shop), "shop", {}) == found


def test_no_entries_are_taken_from_a_store_beside_a_file_that_cannot_be_read(shop: Path) -> None:
    assert declared_entries(Layout(shop), "shop") is not None
    (shop / ORDERS).write_text("name: [\n")
    assert declared_entries(Layout(shop), "shop") is None


def test_files_that_cannot_be_read_are_told_every_time(shop: Path) -> None:
    (shop / ORDERS).write_text("name: [\n")
    layout = Layout(shop)
    keep_counts(layout, load_config(layout.config).config)
    assert counted_by_runs(layout) == {}
    assert [each.code for each in project_status(shop, {}).warnings] == ["broken_source"]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"format": 0}', '{"format": 1, "connections": {"shop": {}}}'])
def test_kept_counts_that_cannot_be_read_are_none(shop: Path, content: str) -> None:
    before = counted(shop, "shop")
    (Layout(shop).cache / "counts.json").write_text(content)
    assert counted_by_runs(Layout(shop)) == {}
    assert counted(shop, "shop") == before


def test_the_quick_signatures_are_those_of_the_search(demo_project: Path) -> None:
    context = context_of(demo_project)
    layout, config = context.layout, context.loaded.config
    pages = {path: text for path, text in contents_of(layout, config).signatures().items() if path.startswith("wiki/")}
    quick = quick_signatures(layout, config, pages)
    assert quick == contents_of(layout, config).signatures()
    assert len(quick) > 10
    assert index_facts(layout, config).state == "current"


def test_the_index_beside_the_files(demo: Path) -> None:
    context = context_of(demo)
    layout, config = context.layout, context.loaded.config
    source = next((demo / "semantic-layer" / "warehouse").glob("*.yaml"))
    os.utime(source, ns=(1, 1))
    before = index_facts(layout, config)
    assert before.state == "current", "a file that was only touched is as it was"
    source.write_text(source.read_text() + "# a word\n")
    (demo / "wiki" / "global" / "new.md").write_text("# New\n")
    found = index_facts(layout, config)
    assert (found.state, found.pages) == ("behind", before.pages + 1)
    assert {"wiki/global/new.md", source.relative_to(demo).as_posix()} <= set(found.behind)
    layout.search_index.write_bytes(b"no index" * 1000)
    assert index_facts(layout, config).state == "unusable"
    layout.search_index.unlink()
    assert index_facts(layout, config).state == "missing"


def facts_in(folder: Path) -> GitFacts:
    return git_facts(lambda: Repository.discover(folder))


def test_git_tells_the_branch_and_what_of_ktx_is_not_committed(shop: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=U", "-c", "user.email=u@example.com")
        subprocess.run(["git", *identity, *words], cwd=shop, check=True, capture_output=True)

    git("add", "ktx.yaml")
    git("commit", "-m", "settings")
    facts = facts_in(shop)
    assert (facts.branch, facts.upstream, facts.uncommitted) == ("main", None, ())
    git("branch", "base")
    git("branch", "--set-upstream-to=base")
    (shop / "a b.txt").write_text("nothing of ktx")
    git("commit", "--allow-empty", "-m", "more")
    (shop / "wiki" / "global").mkdir(parents=True)
    (shop / "wiki" / "global" / "ä page.md").write_text("# A\n")
    (shop / "ktx.yaml").write_text((shop / "ktx.yaml").read_text() + "# mine\n")
    facts = facts_in(shop)
    assert (facts.upstream, facts.ahead, facts.behind) == ("base", 1, 0)
    assert facts.uncommitted == ("ktx.yaml", "wiki/")
    assert facts.text == "on main, 1 commit ahead of base, 2 uncommitted: ktx.yaml, wiki/"
    git("checkout", "-q", "--detach")
    assert facts_in(shop).branch is None


def test_git_in_a_folder_of_a_repository_names_paths_of_the_project(tmp_path: Path) -> None:
    project = tmp_path / "below"
    project.mkdir()
    assert facts_in(project).text == "no repository yet"
    subprocess.run(["git", "init", "-q", "-b", "trunk"], cwd=tmp_path, check=True)
    (project / "ktx.yaml").write_text("{}\n")
    facts = facts_in(project)
    assert (facts.branch, facts.top_level, facts.uncommitted) == ("trunk", tmp_path, ("ktx.yaml",))


@pytest.mark.parametrize(
    ("settings", "state", "hint"),
    [
        ("", "none", None),
        ("backend: openai", "unusable", "ktx config set ingest.embeddings.openai.api_key env:OPENAI_API_KEY"),
        ("{backend: openai, openai: {api_key: 'env:NOT_SET'}}", "unusable", "export NOT_SET=..."),
        ("{backend: openai, openai: {api_key: 'keyring:a/b'}}", "unverified", "ktx doctor --only embeddings"),
        ("{backend: openai, openai: {base_url: 'http://127.0.0.1:9'}}", "usable", None),
        ("{backend: sentence-transformers, sentenceTransformers: {base_url: 'http://h'}}", "usable", None),
    ],
)
def test_embeddings_without_a_model_and_without_a_server(
    tmp_path: Path, settings: str, state: str, hint: str | None
) -> None:
    text = f"ingest:\n  embeddings: {settings}\n" if settings.startswith("{") else ""
    text = text or (f"ingest:\n  embeddings:\n    {settings}\n" if settings else "{}\n")
    (tmp_path / "ktx.yaml").write_text(text)
    facts = embedding_facts(context_of(tmp_path))
    assert (facts.state, facts.finding.hint) == (state, hint)
    assert facts.finding.level.value in ("ok", "warn", "skip"), "search goes by words without them"
