"""A scripted model for any source: it reads the files of its unit, looks a table up, and writes what fits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ktx_cli.core import file_stem
from ktx_cli.testing.model_script import Call, ModelRequest, Reply, calls, gives, says


class Worker:
    """Plays any unit: documents and definitions become a page and a measure, a query history evidence.

    `seen`: the files of the units that were begun.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[str, ...]] = []

    def __call__(self, request: ModelRequest) -> Reply:
        messages = request.body["messages"]
        if "You explain to analysts" in request.system:
            named = re.findall(r'"table": "([\w.]+)"', _text(messages[0]["content"]))
            self.seen += [(f"tables/{file_stem(name)}.json",) for name in named]
            return gives({"tables": [{"table": name, "narrative": f"People look {name} up."} for name in named]})
        listed = re.search(r"work through each of them:\n(.*?)\n</data", _text(messages[0]["content"]), re.DOTALL)
        if listed is None:
            is_triage = "skip, light or full" in request.words
            return gives({"lane": "full", "reason": "It defines terms."}) if is_triage else says("ok")
        files = dict(re.findall(r"^- (\S+) \(([\d,]+) bytes\)", listed[1], re.MULTILINE))
        turn = (len(messages) + 1) // 2
        if turn == 1:
            self.seen.append(tuple(files))
            return calls(*(Call("read_raw_file", {"path": path}) for path in files))
        if "emit_historic_sql_evidence" in request.tool_names:
            return calls(*_evidence(files, request)) if turn == 2 else says("done")
        if turn == 2:
            return calls(Call("entity_details", {"connection": "shop", "targets": ["orders"]}))
        if turn == 3:
            return calls(_page(files), *([_measure(files)] if "sl_write_source" in request.tool_names else []))
        return says("done")


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def _slug(files: Mapping[str, str]) -> str:
    return re.sub(r"[^a-z0-9]+", "-", min(files).lower()).strip("-")


def _page(files: Mapping[str, str]) -> Call:
    body = f"# {_slug(files)}\n\nWhat the source says, of {', '.join(files.values())} bytes."
    fields = {"key": _slug(files), "summary": f"About {_slug(files)}", "content": body, "raw_paths": [*files]}
    return Call("wiki_write", fields)


def _measure(files: Mapping[str, str]) -> Call:
    name = "agents_" + _slug(files).replace("-", "_")
    text = f"name: orders\nmeasures:\n  - name: {name}\n    expr: sum(amount)\n"
    return Call("sl_write_source", {"connection": "shop", "source": "orders", "yaml": text, "raw_paths": [*files]})


def _evidence(files: Mapping[str, str], request: ModelRequest) -> Iterator[Call]:
    read = " ".join(text for text, _ in request.tool_results())
    for path in files:
        if path.startswith("tables/"):
            (table,) = re.findall(r'"table": "([\w.]+)"', read)[:1]
            said: dict[str, Any] = {"kind": "table_usage", "table": table, "narrative": f"People look {table} up."}
        else:
            said = {"kind": "pattern", "slug": "by-name", "title": "Orders by name", "narrative": "Summed."}
            said["fingerprints"] = re.findall(r'"id": "([0-9a-f]+)"', read)
        yield Call("emit_historic_sql_evidence", {"raw_path": path, "evidence": said})
