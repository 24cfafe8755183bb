"""Context packs of made-up companies: do they hold what an answer needs, and is their draft about the right table?

Each seed gives a company with 60 questions whose right SQL is known, and with conventions that documents, dbt SQL, the
data alone or nothing settles. It is read without a model. For each question, a pack of 4,000 tokens is made, and counts
if it has all of these (a pack of the usual size is measured, too):

* every table of the right SQL, and each of its columns in the block of its table;
* the sentence or the SQL of every convention that is stated somewhere and that the answer depends on;
* the open decision of every convention that nothing states.

The draft counts if its fact is the table of the right SQL, or a model over it. Characters are compared with what an
agent read before: `discover_data`, `entity_details` of the needed tables and `wiki_read` of the documents that state
the rules. Run it with `python benchmarks/packs.py [SEED ...]`; it ends with exit code 1 where an aim is missed.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlglot
from sqlglot import exp

from ktx_cli.agent_tools.searcher import open_searcher
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.jobs.pack.pack import ContextPack, PackRequest, context_pack
from ktx_cli.jobs.proof.company.company import Company, write_company
from ktx_cli.jobs.proof.company.conventions import SettledBy
from ktx_cli.jobs.proof.company.questions import Question
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.mcp.tool import Call, Options, compact_json, fit_answer
from ktx_cli.mcp.tools import TOOLS
from ktx_cli.project import Layout, load_config
from ktx_cli.semantic import load_layer

SEEDS: Final = (22, 23, 24)
BUDGET: Final = 4_000
LEAST_WHOLE, LEAST_DRAFTS, MOST_CHARACTERS = 0.9, 0.7, 1 / 3
"""The aims: packs that hold everything, drafts about the right table, and characters beside the tools before."""


@dataclass(frozen=True)
class Needs:
    """What the right SQL of a question reads: tables, and (table, column); `fact` is the table it is about."""

    tables: frozenset[str]
    columns: frozenset[tuple[str, str]]
    fact: str


def needs_of(question: Question) -> Needs:
    """Return what an answer reads."""
    tree: Any = sqlglot.parse_one(question.truth, read="duckdb")
    names = {table.alias_or_name: table.name for table in tree.find_all(exp.Table)}
    columns = {(names[each.table], each.name) for each in tree.find_all(exp.Column) if each.table in names}
    start = tree.args.get("from_") or tree.args["from"]
    return Needs(frozenset(names.values()), frozenset(columns), start.this.name)


def blocks_of(text: str) -> dict[str, str]:
    """Return source -> its lines in a pack."""
    blocks: dict[str, list[str]] = {}
    current = ""
    for line in text.splitlines():
        head = re.match(r"(\w+)(?: \(|: )", line)
        current = head[1] if head else current if line.startswith("  ") else ""
        if current:
            blocks.setdefault(current, []).append(line)
    return {name: "\n".join(lines) for name, lines in blocks.items()}


def missing(company: Company, question: Question, pack: ContextPack) -> Iterator[tuple[str, str]]:
    """Yield (kind, what) of everything that an answer needs and a pack lacks."""
    needs, blocks = needs_of(question), blocks_of(pack.text)
    held = {source.partition("/")[2] for source in pack.sources}
    yield from (("tables", table) for table in sorted(needs.tables - held))
    for table, column in sorted(needs.columns):
        if not re.search(rf"\b{re.escape(column)}\b", blocks.get(table, "")):
            yield "columns", f"{table}.{column}"
    for each in map(company.convention, question.conventions):
        if not each.is_on:
            continue
        if not each.place:
            if not _has_decision(pack.text, each.table.rpartition(".")[2], each.kind.value):
                yield "decisions", each.id
        elif each.settled_by is SettledBy.DOCUMENT:
            if _plain(each.statement)[:60] not in _plain(pack.text):
                yield "rules", each.id
        elif not (re.search(rf"\b{Path(each.place).stem}\b", pack.text) and any(c in pack.text for c in each.columns)):
            yield "rules", each.id


def _has_decision(text: str, table: str, kind: str) -> bool:
    return f"ktx decide {table}.{kind}" in text or (kind == "fiscal_start" and "fiscal_start" in text)


def _plain(text: str) -> str:
    return re.sub(r"\W+", " ", text).casefold()


def is_about(pack: ContextPack, fact: str) -> bool:
    """Say whether the draft of a pack is about a table, or a model over it."""
    drafted = pack.draft.sources[0] if pack.draft is not None else ""
    return fact in (drafted, re.sub(r"^(?:fct|stg)_", "", drafted))


def read_before(project: ServedProject, question: Question) -> int:
    """Return the characters that the tools before gave an agent that looks up what a question needs, and no more."""
    tools = {tool.name: tool for tool in TOOLS}

    def asked(name: str, **arguments: Any) -> int:
        value = tools[name].input_model.model_validate(arguments)
        return len(compact_json(fit_answer(tools[name].run(Call(project, Options(read_only=True)), value), 0)))

    targets = sorted(needs_of(question).tables)
    spent = asked("sl_list") + asked("discover_data", query=question.text, limit=10)
    return spent + asked("entity_details", targets=targets)


def measure(seed: int, folder: Path) -> Counter[str]:
    """Print the figures of one company; returns what was counted."""
    company = write_company(folder, seed)
    for command in (["init", "-q"], ["add", "-A"], [*IDENTITY, "commit", "-qm", "A company"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    layout = Layout(folder)
    config = load_config(layout.config).config
    ingest(IngestRequest(folder, {}, no_llm=True))
    searcher = open_searcher(layout, config, {})
    project = ServedProject(layout, {})
    counts: Counter[str] = Counter()
    spent, before = [], []
    for question in company.questions:
        begun = time.process_time()
        pack = context_pack(layout, config, PackRequest(question.text, BUDGET), searcher=searcher, load=load_layer)
        spent.append(time.process_time() - begun)
        lacks = list(missing(company, question, pack))
        counts += Counter({kind for kind, _ in lacks})
        counts["whole"] += not lacks
        counts["drafts"] += is_about(pack, needs_of(question).fact)
        counts["questions"] += 1
        usual = context_pack(layout, config, PackRequest(question.text), searcher=searcher, load=load_layer)
        counts["usual whole"] += not list(missing(company, question, usual))
        counts["characters"] += len(usual.text)
        before.append(read_before(project, question))
    counts["before"] = sum(before)
    project.close()
    searcher.close()
    number = counts["questions"]
    lacking = ", ".join(f"{counts[kind]} lack {kind}" for kind in ("tables", "columns", "rules", "decisions"))
    print(
        f"seed {seed}: whole {counts['whole'] / number:.0%} ({lacking}), drafts {counts['drafts'] / number:.0%},"
        f" usual size: {counts['usual whole'] / number:.0%} whole in {counts['characters'] // number:,} characters,"
        f" {counts['before'] // number:,} before,"
        f" CPU p50 {1000 * statistics.median(spent):.0f} ms"
    )
    return counts


IDENTITY: Final = ("-c", "user.name=A", "-c", "user.email=a@example.com")


def main() -> int:
    """Print the figures of some companies; returns 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", nargs="*", type=int, default=list(SEEDS))
    total: Counter[str] = Counter()
    for seed in parser.parse_args().seeds:
        with tempfile.TemporaryDirectory() as folder:
            total += measure(seed, Path(folder))
    whole, drafts = (total[kind] / total["questions"] for kind in ("whole", "drafts"))
    share = total["characters"] / total["before"]
    print(
        f"all: whole {whole:.1%} (aim {LEAST_WHOLE:.0%}), drafts {drafts:.1%} (aim {LEAST_DRAFTS:.0%}), "
        f"characters {share:.2f} of before (aim {MOST_CHARACTERS:.2f})"
    )
    return 0 if whole >= LEAST_WHOLE and drafts >= LEAST_DRAFTS and share <= MOST_CHARACTERS else 1


if __name__ == "__main__":
    sys.exit(main())
