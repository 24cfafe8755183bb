"""A company of 16 tables, 12 dbt models, 25 documents and a query history, and a careful model that reads it all.

The model follows the prompts to the letter, as a capable one does: it loads the skills that the task names, or that it
needs for writing, unless they stand in the system prompt; reads every file of its task in one turn; looks up topics,
then tables, side by side; writes what it found; and says that it is done. The same requests get the same answers.
"""

from __future__ import annotations

import random
import re
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.ingest_model import Facts
from benchmarks.ingest_project import Project
from benchmarks.token_bill import Bill, CacheSimulation, tokens
from ktx_cli.llm.types import Usage
from ktx_cli.prompts.prompts import load_skills
from ktx_cli.testing.model_script import Call, ModelRequest, Turn, calls, gives, render, says

TABLES: Final = {
    "customers": ("name", "country", "signed_up_at", "segment"),
    "orders": ("customer_id", "ordered_at", "status", "amount"),
    "order_lines": ("order_id", "product_id", "quantity", "net"),
    "products": ("name", "category", "unit_cost", "active"),
    "refunds": ("order_id", "refunded_at", "amount", "reason"),
    "tickets": ("customer_id", "opened_at", "closed_at", "topic"),
    "shipments": ("order_id", "carrier", "sent_at", "arrived_at"),
    "stores": ("name", "city", "opened_on", "format"),
    "employees": ("store_id", "role", "hired_on", "left_on"),
    "targets": ("store_id", "month", "net", "currency"),
    "coupons": ("code", "percent", "valid_from", "valid_to"),
    "sessions": ("customer_id", "began_at", "channel", "pages"),
    "stock": ("product_id", "store_id", "counted_at", "units"),
    "suppliers": ("name", "country", "lead_days", "active"),
    "purchases": ("supplier_id", "product_id", "ordered_at", "units"),
    "reviews": ("product_id", "rating", "written_at", "text"),
}
"""Table -> its columns beside `id`."""

MODELS: Final = (
    "customers", "orders", "order_lines", "products", "refunds", "tickets", "shipments", "stores", "targets",
    "sessions", "stock", "reviews",
)  # fmt: skip
FULL: Final = (
    "glossary", "revenue", "refund-policy", "active-customers", "gross-margin", "fiscal-calendar", "support-levels",
    "returns", "channels", "store-formats", "coupon-rules", "stock-counts", "delivery-promise",
)  # fmt: skip
LIGHT: Final = ("minutes-june", "announcement-guest-cards", "ticket-4711")
SKIP: Final = (
    "agenda", "offsite", "lunch", "office-plants", "parking", "new-printer", "birthdays", "template", "travel",
)  # fmt: skip
WRITING_SKILLS: Final = ("wiki_capture", "sl_capture", "sl")
"""What a careful model loads before it writes pages and the semantic layer."""

_WRITERS: Final = ("wiki_write", "sl_write_source")

HISTORY: Final = "    context: {queryHistory: {enabled: true, file: history.sql}}\n"
STATEMENTS: Final = (
    "SELECT c.country, SUM(o.amount) FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY c.country",
    "SELECT p.category, SUM(l.net) FROM order_lines l JOIN products p ON p.id = l.product_id GROUP BY p.category",
    "SELECT status, COUNT(*) FROM orders GROUP BY status",
    "SELECT reason, SUM(amount) FROM refunds GROUP BY reason",
    "SELECT topic, COUNT(*) FROM tickets WHERE closed_at IS NULL GROUP BY topic",
    "SELECT s.city, SUM(t.net) FROM targets t JOIN stores s ON s.id = t.store_id GROUP BY s.city",
    "SELECT carrier, COUNT(*) FROM shipments GROUP BY carrier",
    "SELECT channel, COUNT(*) FROM sessions GROUP BY channel",
)


PLANTED: Final = {
    "customers": ("WHERE segment <> 'internal'", ("segment <> 'internal'",)),
    "orders": (
        "WHERE status <> 'cancelled' -- cancelled orders never become revenue, not even with a fee",
        ("status <> 'cancelled'", "cancelled orders never become revenue, not even with a fee"),
    ),
    "refunds": ("WHERE reason NOT IN ('duplicate', 'test')", ("reason NOT IN ('duplicate', 'test')",)),
    "tickets": (
        "-- since spring 2025 a ticket is in time within 48 hours, before that it was 72\nWHERE topic IS NOT NULL",
        ("since spring 2025 a ticket is in time within 48 hours, before that it was 72",),
    ),
    "sessions": ("WHERE NOT channel = 'bot'", ("channel = 'bot'",)),
}
"""Model -> the end of its SQL, and the facts in it that stand nowhere else."""

COMPUTED: Final = {
    "customers": ("CASE WHEN country IN ('DE', 'AT', 'CH') THEN 'dach' ELSE 'rest' END AS region", "'dach'"),
    "order_lines": ("COALESCE(net, 0) AS net_or_nothing", "COALESCE(net, 0)"),
    "products": ("NULLIF(unit_cost, 0.01) AS known_cost", "NULLIF(unit_cost, 0.01)"),
    "shipments": ("CASE WHEN carrier = 'own van' THEN 0 ELSE 4.9 END AS postage", "4.9"),
    "orders": ("NULLIF(customer_id, 900001) AS known_customer_id", "NULLIF(customer_id, 900001)"),
}
"""Model -> a computed column, and what of it stands nowhere else."""


def facts_of_sql() -> list[str]:
    """Return the facts that stand in the SQL of the dbt models alone."""
    return [fact for _, facts in PLANTED.values() for fact in facts] + [fact for _, fact in COMPUTED.values()]


def build(folder: Path, model: CarefulModel, *, sql: bool = True) -> Project:
    """Return the project in a new folder, with everything in it that is to be ingested.

    `sql`: the dbt models have their SQL, which ktx did not read before; without it the project gives agents what it
    gave them then.
    """
    project = Project(folder, model, "anthropic", at_once=1)  # type: ignore[arg-type]
    database = sqlite3.connect(folder / "shop.sqlite")
    database.executescript("DROP TABLE orders; DROP TABLE customers;")
    for name, columns in TABLES.items():
        database.execute(
            f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, {', '.join(f'{each} TEXT' for each in columns)})"
        )
        rows = ([row, *(f"{column} {row % 7}" for column in columns)] for row in range(40))
        database.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * (len(columns) + 1))})", rows)
    database.commit()
    database.close()
    for name, text in _files(sql=sql):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return project


def ingest_all(project: Project) -> None:
    """Configure the sources of the project."""
    project.configure("dbt", "handbook", shop=HISTORY)


def _files(*, sql: bool) -> Iterator[tuple[str, str]]:
    yield "history.sql", "".join(f"-- user: ann executions: 20\n{each};\n" for each in STATEMENTS)
    yield "dbt/dbt_project.yml", "name: shop\nversion: 1.0.0\n"
    for name in MODELS:
        columns = TABLES[name]
        if sql:
            yield f"dbt/models/{name}.sql", _model(name, columns)
        described = "".join(f"      - name: {each}\n        description: {_prose(each, 1)}\n" for each in columns)
        yield (
            f"dbt/models/{name}.yml",
            f"version: 2\nmodels:\n  - name: {name}\n    description: {_prose(name, 2)}\n    columns:\n{described}",
        )
    for name in MODELS[:7]:
        yield f"dbt/models/{name}.md", f"{{% docs {name} %}}\n{_prose(name, 12)}\n{{% enddocs %}}\n"
    for name in FULL:
        yield f"handbook/{name}.md", f"# {name}\n\n{_prose(name, 13)}\n"
    for name in LIGHT:
        yield f"handbook/{name}.md", f"# {name}\n\n{_prose(name, 5)}\n"
    for name in SKIP:
        yield f"handbook/{name}.md", f"# {name}\n\n{_prose(name, 5)}\n"


def _model(name: str, columns: Sequence[str]) -> str:
    computed = [COMPUTED[name][0]] if name in COMPUTED else []
    selected = ",\n  ".join(("id", *columns, *computed))
    end = f"{PLANTED[name][0]}\n" if name in PLANTED else ""
    return f"-- {_prose(name, 2)}\nSELECT\n  {selected}\nFROM raw.{name}\n{end}"


_SENTENCES: Final = (
    "{0} is counted on the day of the order, never on the day of the payment",
    "Orders that were cancelled are left out of {0}, and so are test accounts",
    "The finance team owns {0} and decides about exceptions at the end of a month",
    "Before spring 2025 {0} was reported without tax, and old reports still show it so",
    "A refund reduces {0} in the month in which it is paid out",
    "Stores that opened in the year are shown apart wherever {0} is compared with the year before",
    "Amounts of {0} are in euros without tax",
)


def _prose(topic: str, sentences: int) -> str:
    words = topic.replace("-", " ").replace("_", " ")
    chosen = (_SENTENCES[(len(topic) + number) % len(_SENTENCES)].format(words) for number in range(sentences))
    return ". ".join(chosen) + "."


@dataclass
class Tally:
    """The requests of one kind of work, and what they took."""

    loops: int = 0
    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    dollars: float = 0.0

    def add(self, bill: Bill, *, first: bool) -> None:
        """Add a request; `first`: it begins a loop."""
        self.loops += first
        self.requests += 1
        self.usage += bill.usage
        self.dollars += bill.cost.usd or 0.0


@dataclass
class CarefulModel:
    """Answers requests by what they show, and bills them; what a project asks of a model is here too."""

    cache: CacheSimulation = field(default_factory=CacheSimulation)
    tallies: dict[str, Tally] = field(default_factory=dict)
    url: str = ""
    facts_shown: set[str] = field(default_factory=set)
    """The facts of the SQL of models that requests of work units had before the model wrote anything."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._skills = {name: skill.text.strip() for name, skill in load_skills().items()}

    def facts(self) -> Facts:
        """Return how much was asked."""
        requests = sum(each.requests for each in self.tallies.values())
        return Facts(sum(each.loops for each in self.tallies.values()), requests, 0, 1, 0.0)

    def __call__(self, request: ModelRequest) -> Turn:
        """Return the next turn, with what it takes."""
        with self._lock:
            kind, turn = self._turn(request)
            if kind == "dbt" and not any(block.name in _WRITERS for block in turn.calls):
                shown = request.words.replace('\\"', '"')
                self.facts_shown.update(fact for fact in facts_of_sql() if fact in shown)
            output = tokens(render(turn, request)["content"])
            bill = self.cache.bill(request.body, output)
            first = len(request.body["messages"]) == 1
            self.tallies.setdefault(kind, Tally()).add(bill, first=first)
        usage = bill.usage
        return replace(
            turn,
            input_tokens=usage.input_tokens,
            output_tokens=output,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            long_cache_write_tokens=bill.long_writes,
        )

    def _turn(self, request: ModelRequest) -> tuple[str, Turn]:
        messages = request.body["messages"]
        task = _text(messages[0])
        if "You sort documents" in request.system:
            return "triage", gives({"lane": _lane(task), "reason": "It says what counts."})
        if "You extract the few lasting facts" in request.system:
            return "extraction", gives({"candidates": [_fact(task)]})
        if "questions that parts of a company's documents answer" in request.system:
            return "questions", gives({"sections": [_found_by(label) for label in _LABEL.findall(task)]})
        if request.body.get("output_config", {}).get("format") and '"narrative"' in request.words:
            texts = (
                {"table": name, "narrative": f"People count {name} by their kind. They do so daily."}
                for name in dict.fromkeys(re.findall(r'"table": ?"([^"]+)"', task))
            )
            return "digests", gives({"tables": list(texts)})
        if "Reply with exactly: ok" in task:
            return "probe", says("ok")
        kind, turns = self._plan(request, task)
        done = sum(message["role"] == "assistant" for message in messages)
        return kind, turns[min(done, len(turns) - 1)]

    def _plan(self, request: ModelRequest, task: str) -> tuple[str, list[Turn]]:
        """Return the kind of a loop and all its turns."""
        files = _files_of(task)
        if "emit_historic_sql_evidence" in request.tool_names:
            kind, turns, wanted = "history", _digest(files[0], request.words), ()
        elif "candidate `" in task:
            kind, turns, wanted = "curate", _curation(task), WRITING_SKILLS[:1]
        elif "This run has " in task:
            kind, turns, wanted = "reconcile", [calls(Call("stage_list")), _look("revenue")], ()
        elif files and files[0].startswith(("models/", "dbt_project")):
            kind, turns, wanted = "dbt", _dbt_work(files), WRITING_SKILLS
        elif files:
            kind, turns, wanted = "documents", _document_work(files), WRITING_SKILLS
        else:
            return "other", [says("Nothing is left to do.")]
        skills = self._to_load(request, task, wanted)
        loading = [calls(*(Call("load_skill", {"name": name}) for name in skills))] if skills else []
        return kind, [*loading, *turns, says("Everything is worked through, and what lasts is written.")]

    def _to_load(self, request: ModelRequest, task: str, wanted: Sequence[str]) -> list[str]:
        named = re.search(r"^Load first: (.*)\.$", task, re.MULTILINE)
        first = re.findall(r"`(\w+)`", named[1]) if named else []
        return [name for name in dict.fromkeys((*first, *wanted)) if self._skills[name] not in request.system]


_LABEL: Final = re.compile(r"^(s\d+):$", re.MULTILINE)


def _found_by(label: str) -> dict[str, Any]:
    """Return an answer about one section, as long as those of a careful model."""
    asked = (
        "Does an order count that was called off?",
        "On which day does it count?",
        "Which table do I use for this?",
    )
    synonyms = ("net sales", "sales after returns", "takings", "turnover")
    return {"section": label, "questions": [*asked, "Why is last month's figure lower now?"], "synonyms": synonyms}


def _lane(task: str) -> str:
    path = re.search(r"path: ([\w/-]+)\.md", task)
    name = path[1].rpartition("/")[2] if path else ""
    return "light" if name in LIGHT else "full" if name in FULL else "skip"


def _fact(task: str) -> dict[str, Any]:
    path = re.search(r"path: ([\w/-]+)\.md", task)
    topic = path[1].rpartition("/")[2] if path else "a fact"
    scores = dict.fromkeys(("durability", "authority", "reuse", "novelty"), 3)
    words = {"topic": topic, "assertion": f"{topic} is counted on the day of the order.", "rationale": "People ask."}
    return {**words, "passages": ["p1"], "page": None, "hint": "create", **scores, "risk": 1}


def _files_of(task: str) -> list[str]:
    listed = task.partition("Files of this task")[2].partition("</data")[0]
    return re.findall(r"^- ([\w./-]+\.\w+)(?: \(|$)", listed, re.MULTILINE)


def _look(*queries: str) -> Turn:
    return calls(*(Call("discover_data", {"query": query}) for query in queries))


def _read(files: Sequence[str]) -> Turn:
    return calls(*(Call("read_raw_file", {"path": path}) for path in files))


def _details(tables: Sequence[str]) -> Turn:
    return calls(*(Call("entity_details", {"connection": "shop", "targets": [table]}) for table in tables))


def _page(key: str, paths: Sequence[str]) -> Call:
    dice = random.Random(key)
    own = " ".join("".join(dice.choices("abcdefghijklmnop", k=6)) for _ in range(60))
    text = f"# {key}\n\n{_prose(key, 1)} {own}."
    return Call("wiki_write", {"key": key, "summary": f"About {key}.", "content": text, "raw_paths": list(paths)})


def _measure(table: str, path: str) -> Call:
    text = f"name: {table}\nmeasures:\n  - name: number_of_{table}\n    expr: count(*)\n"
    return Call("sl_write_source", {"connection": "shop", "source": table, "yaml": text, "raw_paths": [path]})


def _document_work(files: Sequence[str]) -> list[Turn]:
    topics = [Path(path).stem for path in files]
    pages = [_page(topic, [path]) for topic, path in zip(topics, files, strict=True)]
    half = (len(pages) + 1) // 2
    looked = _details(list(TABLES)[: min(len(files), 8)])
    return [_read(files), _look(*topics), looked, calls(*pages[:half]), calls(*pages[half:] or pages[:1])]


def _dbt_work(files: Sequence[str]) -> list[Turn]:
    topics = [Path(path).stem for path in files]
    tables = [name for name in TABLES if any(topic.endswith(name) for topic in topics)] or ["products"]
    writes = [_measure(table, files[0]) for table in tables]
    return [_read(files), _look(*topics), _details(tables), calls(*writes), calls(_page(f"dbt-{topics[0]}", files[:1]))]


def _digest(path: str, words: str) -> list[Turn]:
    """Return the turns for a file of the history; `words`: the request, which shows the file once it is read."""
    table = Path(path).stem.rpartition(".")[2]
    evidence: dict[str, Any] = {
        "kind": "table_usage", "table": table, "narrative": f"People count {table} by their kind. They do so daily.",
    }  # fmt: skip
    if path.startswith("patterns/"):
        ids = re.findall(r'\\"id\\": \\"(\w+)\\"', words)
        slug = f"question-{Path(path).stem}"
        evidence = {"kind": "pattern", "slug": slug, "title": "What is sold where?", "narrative": "Sums by place."}
        evidence["fingerprints"] = ids[:1] or ["none"]
    return [_read([path]), calls(Call("emit_historic_sql_evidence", {"raw_path": path, "evidence": evidence}))]


def _curation(task: str) -> list[Turn]:
    keys = re.findall(r"candidate `([^`]+)`:", task)
    evidence = re.findall(r"^evidence: (\S+)", task, re.MULTILINE)
    marks = (
        Call("context_candidate_mark", {"key": key, "status": "rejected", "reason": "A page says it already."})
        for key in keys
    )
    return [calls(*(Call("context_evidence_read", {"passage": key}) for key in evidence)), _look(*keys), calls(*marks)]


def _text(message: Any) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(block.get("text", "") for block in content)


def as_json(tally: Tally) -> dict[str, Any]:
    """Return a tally as plain values."""
    return {
        "loops": tally.loops,
        "requests": tally.requests,
        **tally.usage.to_json(),
        "dollars": round(tally.dollars, 4),
    }
