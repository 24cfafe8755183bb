"""A scripted model that works through the demo company's sources, and counts who of the product asked it."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from ktx_cli.core import yaml
from ktx_cli.testing.model_script import Call, ModelRequest, Reply, Turn, calls, gives, says
from tests.cli.agents import section_questions

MARKS = {
    path.name.removesuffix(".md"): path.read_text("utf-8").split("\n")[0].split("{{")[0]
    for path in files("ktx_cli").joinpath("prompts").iterdir()
    if path.name.endswith(".md")
}
"""Packaged prompts -> how each begins; no two begin alike."""

LIGHT = {"onboarding.md": "page: where-to-start", "glossary.md": "page: words"}
WORTHLESS = ("README.md",)
"""Documents of the handbook that are not read by an agent of their own."""

NET_REVENUE = "wiki/global/net-revenue.md"
STOCK = "wiki/global/stock.md"

STILL_FREE = """\
name: inventory_snapshots
measures:
  - name: pieces_on_hand
    expr: sum(on_hand)
    semi_additive: {over: snapshot_date_key, take: last}
    description: Pieces at the last count of the period. Counts of several days cannot be added.
    questions:
      - How much stock do we have?
      - How many pieces were in the greenhouse at the last count?
      - Which category has the most pieces on hand?
    synonyms: [inventory, stock level, stock on hand]
  - name: pieces_to_sell
    expr: sum(on_hand - reserved)
    semi_additive: {over: snapshot_date_key, take: last}
    description: Pieces of the last count that nobody has bought yet.
    questions:
      - How many pieces can we still sell?
      - How much of the stock is not reserved?
      - Which products are about to sell out?
    synonyms: [available stock, free stock, sellable pieces]
tests:
  - name: what can be sold is never more than what is there
    query: {measures: [inventory_snapshots.pieces_on_hand, inventory_snapshots.pieces_to_sell]}
    invariant: pieces_to_sell <= pieces_on_hand
"""
"""What the handbook's agent writes: the overlay of the company's analysts with a measure and a test of it more."""

DISAGREEMENT = Call(
    "record_contradiction",
    {
        "topic": "day of a refund",
        "statements": [
            {
                "source": "net-revenue.md",
                "text": "Net revenue belongs to the day of the order.",
                "effect": "A refund changes a month that is closed.",
            },
            {
                "source": "sl:warehouse/order_revenue.net_revenue",
                "text": "Gross revenue minus refunds, cancelled orders left out.",
                "effect": "The measure does not say on which day a refund counts.",
            },
        ],
    },
)
"""What the handbook's agent records beside its pages."""

FOUND_BY: dict[str, dict[str, list[str]]] = {
    "net-revenue": {
        "questions": [
            "What is net revenue?",
            "On which day does a refund count?",
            "Do cancelled orders count as revenue?",
        ],
        "synonyms": ["net sales", "revenue after refunds"],
    },
    "stock": {
        "questions": [
            "How many pieces can still be sold?",
            "How do I read the Sunday counts?",
            "Can I add up the counts of several Sundays?",
        ],
        "synonyms": ["inventory", "stock count"],
    },
    "monday-board": {
        "questions": [
            "What does the Monday board show?",
            "Where do I see net revenue by region against the targets?",
            "Which dashboard shows the sales targets?",
        ],
        "synonyms": ["Monday dashboard", "revenue dashboard"],
    },
    "where-to-start": {
        "questions": [
            "Which view answers most questions about revenue?",
            "Where do I start?",
            "Which view leaves cancelled orders out?",
        ],
        "synonyms": ["getting started", "first steps"],
    },
    "returns": {
        "questions": [
            "Until when can customers send something back?",
            "How many days does a customer have to return an order?",
        ],
        "synonyms": ["return policy", "return period"],
    },
}
"""What the agents write for each page to be found by, taken from the text of the page."""

WRITTEN: dict[str, list[dict[str, Any]]] = yaml.load(
    Path(__file__).parents[1].joinpath("search", "written_questions.yaml").read_text("utf-8"), where="written questions"
)
"""What a model writes for everything in the demo to be found by, from the text of each alone."""
SECTIONS = {each["heading"]: each for each in WRITTEN["passages"]}
DEFINITIONS = {
    f"{kind} {each['id']}": each for kind in ("measure", "segment", "source") for each in WRITTEN[f"{kind}s"]
}

TILL = """
CREATE TABLE staff (badge INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE sales (id INTEGER PRIMARY KEY, hand INTEGER, cents INTEGER);
INSERT INTO staff VALUES (1, 'Ada'), (2, 'Bo'), (3, 'Cy');
INSERT INTO sales VALUES (1, 1, 950), (2, 3, 1200), (3, 2, 300), (4, 1, 80), (5, 3, 40), (6, 2, 5);
"""
"""A second database: nothing describes its tables, neither names nor rows tell that `hand` is a badge."""


def prompt_of(request: ModelRequest) -> str | None:
    """Return the packaged prompt a request carries as its system prompt; None: none of them."""
    return next((name for name, mark in MARKS.items() if mark in request.system), None)


class CompanyAgents:
    """Plays every loop and answers every question of an ingest of the company; `asked` counts requests by prompt.

    The agents of dbt and of the handbook both write the page `net-revenue`; the handbook's page on stock refers to a
    page nobody writes. Repairs put both right.
    """

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self._turns: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, request: ModelRequest) -> Reply:
        prompt = prompt_of(request)
        said = json.dumps(request.body.get("messages", []), ensure_ascii=False).replace('\\"', '"').replace("\\n", "\n")
        with self._lock:
            self.asked[prompt or self.other(request.system, said)] += 1
            loop = f"{prompt} dbt" if "Task: dbt project" in said else str(prompt)
            turn = self._turns[loop]
            self._turns[loop] += 1
        answer = getattr(self, f"_{prompt}", None)
        if answer is not None:
            return gives(answer(said))
        if "ask for an object" in request.system:
            return gives({"sum": 2})
        turns = LOOPS.get(loop)
        return says("ok") if turns is None else turns(said)[min(turn, len(turns(said)) - 1)]

    def other(self, system: str, said: str) -> str:
        """Return how a request without a packaged prompt is counted."""
        return "none"

    def _page_triage(self, said: str) -> dict[str, Any]:
        path = _found(r"path: ([\w.-]+)", said)
        lane = "skip" if path in WORTHLESS else "light" if path in LIGHT else "full"
        return {"lane": lane, "reason": "As the handbook says."}

    def _light_extraction(self, said: str) -> dict[str, Any]:
        scores = {"durability": 3, "authority": 3, "reuse": 3, "novelty": 2, "risk": 0}
        fact = {
            "topic": "Where to start",
            "assertion": "The view order_revenue leaves cancelled orders out.",
            "rationale": "Everybody asks it first.",
            "passages": ["p1"],
            "page": "where-to-start",
            "hint": "create",
        }
        return {"candidates": [{**fact, **scores}] if "path: onboarding.md" in said else []}

    def _passage_questions(self, said: str) -> dict[str, Any]:
        return section_questions(said, SECTIONS)

    def _definition_questions(self, said: str) -> dict[str, Any]:
        return definition_questions(said)

    def _describe_tables(self, said: str) -> dict[str, Any]:
        return {
            "tables": [
                {
                    "table": table["table"],
                    "description": f"What the till knows of {table['table']}.",
                    "columns": [
                        {"column": each["column"], "description": f"The {each['column']} of a row."}
                        for each in table["columns"]
                    ],
                }
                for table in _tables(said)
            ]
        }

    def _digest_tables(self, said: str) -> dict[str, Any]:
        narrative = "Most queries list who works there."
        return {"tables": [{"table": name, "narrative": narrative} for name in re.findall(r'"table": "([^"]+)"', said)]}

    def _propose_joins(self, said: str) -> dict[str, Any]:
        lines = _found(r"<columns>\n((?:.|\n)*?)\n</columns>", said).splitlines()
        asked = {each["name"]: each for each in map(json.loads, lines)}
        parents = {each["table"].rpartition(".")[2]: each["parent"] for each in asked["hand"]["parents"]}
        answer = {"column": asked["hand"]["column"], "parent": parents["staff"], "confidence": 0.9}
        return {"columns": [{**answer, "rationale": "The hand at the till is named by a badge."}]}


def definition_questions(said: str) -> dict[str, Any]:
    """Return an answer to what `definition_questions` asks: what the model writes for what it knows of the demo."""
    said = said.replace('\\"', '"').replace("\\n", "\n")
    sources = []
    for label, text in re.findall(r"(s\d+):\s*<data id=[^>]*>\n(.*?)\n</data", said, re.DOTALL):
        names = re.findall(r"^(source|measure|segment) ([^:\n]+):", text, re.MULTILINE)
        source = names[0][1]
        keys = {f"{kind} {name}": f"{kind} {name if kind == 'source' else f'{source}.{name}'}" for kind, name in names}
        known = {name: DEFINITIONS[key] for name, key in keys.items() if key in DEFINITIONS}
        texts = [{"name": name, "questions": e["questions"], "synonyms": e["synonyms"]} for name, e in known.items()]
        sources.append({"source": label, "definitions": texts})
    return {"sources": sources}


def _handbook(said: str) -> list[Reply]:
    pages = (
        Call(
            "wiki_write",
            {
                "key": "net-revenue",
                **FOUND_BY["net-revenue"],
                "summary": "What customers paid for goods, after everything that was given back.",
                "content": "# Net revenue\n\nThe handbook: it belongs to the day of the order.",
                "sl_refs": ["warehouse/order_revenue.net_revenue"],
                "raw_paths": ["net-revenue.md"],
            },
        ),
        Call(
            "wiki_write",
            {
                "key": "stock",
                **FOUND_BY["stock"],
                "summary": "How many pieces can still be sold, and how the Sunday counts are read.",
                "content": "# Stock\n\nWhat is reserved is sold already. Counts of several Sundays are never added.",
                "refs": ["sunday-counts"],
                "sl_refs": ["warehouse/inventory_snapshots.pieces_on_hand"],
                "raw_paths": ["stock.md"],
            },
        ),
    )
    overlay = {
        "connection": "warehouse",
        "source": "inventory_snapshots",
        "yaml": STILL_FREE,
        "raw_paths": ["stock.md"],
    }
    return [
        calls(
            Call("read_raw_file", {"path": "net-revenue.md"}),
            Call("read_raw_file", {"path": "stock.md"}),
            _look("order_revenue", "inventory_snapshots"),
        ),
        calls(*pages, Call("sl_write_source", overlay), DISAGREEMENT, text="Written down."),
        says("The pages on revenue and stock are written."),
    ]


def _dbt(said: str) -> list[Reply]:
    page = {
        "key": "net-revenue",
        **FOUND_BY["net-revenue"],
        "summary": "The number finance reports: gross revenue minus refunds.",
        "content": "# Net revenue\n\ndbt: gross revenue minus refunds, cancelled orders left out.",
        "sl_refs": ["warehouse/order_revenue.net_revenue"],
        "raw_paths": ["models/marts/schema.yml"],
    }
    board = {
        "key": "monday-board",
        **FOUND_BY["monday-board"],
        "summary": "The dashboard of net revenue by region against the sales targets.",
        "content": "# Monday board\n\nIt shows what [[net-revenue]] says, by region.",
        "refs": ["net-revenue"],
        "sl_refs": ["warehouse/order_revenue"],
        "raw_paths": ["models/marts/exposures.yml"],
    }
    return [
        calls(Call("read_raw_file", {"path": "models/marts/exposures.yml"}), _look("order_revenue")),
        calls(Call("wiki_write", page), Call("wiki_write", board)),
        says("The board and its number are written."),
    ]


def _curate(said: str) -> list[Reply]:
    key = _found(r"candidate `([^`]+)`", said)
    page = {
        "key": "where-to-start",
        **FOUND_BY["where-to-start"],
        "summary": "Which view answers most questions about revenue.",
        "content": "# Where to start\n\nStart from `order_revenue`: cancelled orders are left out there.",
        "sl_refs": ["warehouse/order_revenue"],
        "raw_paths": ["onboarding.md"],
    }
    mark = {"key": key, "status": "promoted", "artifact": "wiki:where-to-start"}
    return [
        calls(_look("order_revenue"), Call("wiki_write", page), Call("context_candidate_mark", mark)),
        says("One page."),
    ]


def _memory(said: str) -> list[Reply]:
    page = {
        "key": "returns",
        **FOUND_BY["returns"],
        "summary": "Until when customers may send something back.",
        "content": "# Returns\n\nCustomers may send things back for 30 days; [[net-revenue]] counts it then.",
        "refs": ["net-revenue"],
        "sl_refs": ["warehouse/order_revenue"],
    }
    return [
        calls(Call("load_skill", {"name": "memory_capture"}), _look("order_revenue")),
        calls(Call("wiki_write", page), text="Written down."),
        says("One page on returns."),
    ]


def _reconcile(said: str) -> list[Reply]:
    return [calls(Call("load_skill", {"name": "ingest_triage"}), Call("stage_list")), says("Nothing is twice.")]


def _conflict_repair(said: str) -> list[Reply]:
    text = (
        "---\nsummary: What customers paid for goods, after everything that was given back.\n"
        f"{yaml.dump(FOUND_BY['net-revenue'])}"
        "sl_refs:\n- warehouse/order_revenue.net_revenue\n---\n\n# Net revenue\n\n"
        "dbt: gross revenue minus refunds, cancelled orders left out.\n\n"
        "The handbook: it belongs to the day of the order.\n"
    )
    return [calls(Call("write_repair_file", {"path": NET_REVENUE, "content": text})), says("Both are in it.")]


def _gate_repair(said: str) -> list[Reply]:
    text = (
        "---\nsummary: How many pieces can still be sold, and how the Sunday counts are read.\n"
        f"{yaml.dump(FOUND_BY['stock'])}"
        "sl_refs:\n- warehouse/inventory_snapshots.pieces_on_hand\n---\n\n# Stock\n\n"
        "What is reserved is sold already. Counts of several Sundays are never added.\n"
    )
    return [calls(Call("write_repair_file", {"path": STOCK, "content": text})), says("It is taken out.")]


def _eval_question(said: str) -> list[Reply]:
    query = {"measures": ["orders.order_count"], "dimensions": ["orders.channel"]}
    return [calls(Call("sl_query", {"query": query})), says("The orders by channel.")]


def _proof_question(said: str) -> list[Reply]:
    query = {"measures": ["orders.order_count"], "dimensions": ["orders.channel"], "connection": "warehouse"}
    answer = {"result": "r1", "columns": ["channel", "order_count"]}
    return [calls(Call("sl_query", query)), calls(Call("answer", answer)), says("Answered.")]


def _evolve(said: str) -> list[Reply]:
    return [calls(Call("sl_read_source", {"connection": "warehouse", "source": "orders"})), says("Nothing is wrong.")]


LOOPS = {
    "work_unit": _handbook,
    "work_unit dbt": _dbt,
    "curate": _curate,
    "reconcile": _reconcile,
    "memory": _memory,
    "conflict_repair": _conflict_repair,
    "gate_repair": _gate_repair,
    "eval_question": _eval_question,
    "proof_question": _proof_question,
    "evolve": _evolve,
}
"""Loops -> the turns of each, of what was said so far."""


def write_till(path: Path) -> None:
    """Write the second database."""
    with sqlite3.connect(path) as database:
        database.executescript(TILL)
    database.close()


def _look(*sources: str) -> Call:
    return Call("entity_details", {"connection": "warehouse", "targets": list(sources)})


def _found(pattern: str, said: str) -> str:
    found = re.search(pattern, said)
    assert found, f"{pattern} is not in the request"
    return found[1]


def _tables(said: str) -> Iterator[dict[str, Any]]:
    """Yield the tables a question shows."""
    rest, decoder = _found(r"<tables>\n((?:.|\n)*?)\n</tables>", said), json.JSONDecoder()
    while rest:
        table, end = decoder.raw_decode(rest)
        yield table
        rest = rest[end:].lstrip("\n")


def written_files() -> dict[str, str]:
    """Return path -> text of what the agents of dbt, the handbook and the memory leave behind in the end."""
    found = {"semantic-layer/warehouse/inventory_snapshots.yaml": STILL_FREE}
    loops = (_handbook(""), _dbt(""), _curate("candidate `c`"), _memory(""), _conflict_repair(""), _gate_repair(""))
    for call in (call for turns in loops for turn in turns if isinstance(turn, Turn) for call in turn.calls):
        if isinstance(call.arguments, str):
            continue
        if call.name == "wiki_write":
            found[f"wiki/global/{call.arguments['key']}.md"] = _page_text(call.arguments)
        elif call.name == "write_repair_file":
            found[call.arguments["path"]] = call.arguments["content"]
    return found


def _page_text(arguments: Mapping[str, Any]) -> str:
    fields = {key: value for key, value in arguments.items() if key not in ("key", "content", "raw_paths")}
    return f"---\n{yaml.dump(fields)}---\n\n{arguments['content']}\n"
