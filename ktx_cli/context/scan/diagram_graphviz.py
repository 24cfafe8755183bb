"""Writes a diagram as Graphviz DOT, and draws it as SVG by the `dot` program where that is installed."""

from __future__ import annotations

import html
import subprocess
from pathlib import Path
from typing import Final

from ktx_cli.context.scan.diagram import Attribute, Diagram, Edge, Entity
from ktx_cli.context.scan.diagram_mermaid import edge_label, visible
from ktx_cli.core.errors import KtxError, NotReadyError
from ktx_cli.core.text import one_line
from ktx_cli.project.programs import find_program

DRAWING_SECONDS = 60.0
"""How long `dot` may take; some hundred tables take it seconds."""

_NAME_LENGTH: Final = 60
_COLOURS: Final = {"formal": "#2f4f6f", "manual": "#2e7d32", "inferred": "#b26a00"}
_HEADER: Final = [
    "digraph ktx {",
    '  graph [rankdir=LR, nodesep=0.35, ranksep=1.1, pad=0.3, bgcolor=white, fontname="Helvetica"];',
    '  node [shape=plain, fontname="Helvetica", fontsize=11];',
    '  edge [fontname="Helvetica", fontsize=9, fontcolor="#555555", dir=both, arrowsize=0.8];',
]
_ENDS: Final = {
    "many_to_one": ("crowodot", "teetee"),
    "one_to_one": ("teeodot", "teetee"),
    "many_to_many": ("crowodot", "crowodot"),
}


def dot(diagram: Diagram) -> str:
    """Return the text of a `digraph`: a table per entity, an edge from column to column per join.

    Solid lines are declared keys, dashed ones are not.
    """
    nodes = {entity.name: f"t{number}" for number, entity in enumerate(diagram.entities)}
    ports = {entity.name: _ports(entity) for entity in diagram.entities}
    lines = [*_HEADER]
    lines += [f"  {nodes[entity.name]} [label=<{_table(entity)}>];" for entity in diagram.entities]
    lines += [_edge(nodes, ports, edge) for edge in diagram.edges]
    return "\n".join([*lines, "}"]) + "\n"


def draw_svg(text: str, *, seconds: float = DRAWING_SECONDS, project_dir: Path | None = None) -> str:
    """Return the SVG of a DOT text; `project_dir`: where no program is run from, by default the current folder's.

    Raises `NotReadyError` when Graphviz is not installed, `KtxError` when `dot` refuses or takes too long.
    """
    program, passed = find_program("dot", project_dir=project_dir)
    if program is None and passed is not None:
        raise NotReadyError(
            f"the only `dot` on the PATH is {passed}, which lies in the project: it could have come with it",
            hint="install Graphviz elsewhere: apt-get install graphviz",
        )
    if program is None:
        raise NotReadyError(
            "SVG needs the program `dot` of Graphviz, which is not installed", hint="apt-get install graphviz"
        )
    try:
        done = subprocess.run(
            [program, "-Tsvg"], input=text.encode("utf-8", "replace"), capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise KtxError(
            f"`dot` was stopped after {seconds:g} seconds",
            hint="draw less: add --keys-only or --tables PATTERN",
            code="timeout",
        ) from error
    except OSError as error:
        raise KtxError(f"`{program}` cannot be run: {error.strerror or error}", hint="dot -V") from error
    if done.returncode != 0 or not done.stdout:
        said = one_line(done.stderr.decode("utf-8", "replace")) or f"exit status {done.returncode}"
        raise KtxError(f"`dot` could not draw the diagram: {said}", hint="add --format mermaid, which needs no program")
    return done.stdout.decode("utf-8")


def _ports(entity: Entity) -> dict[str, str]:
    return {attribute.name: f"c{number}" for number, attribute in enumerate(entity.attributes)}


def _table(entity: Entity) -> str:
    rows = [f'<tr><td colspan="3" bgcolor="#2f4f6f"><font color="white"><b>{_text(entity.name)}</b></font></td></tr>']
    rows += [_row(number, attribute) for number, attribute in enumerate(entity.attributes)]
    if entity.hidden:
        rows.append(f'<tr><td></td><td align="left" colspan="2"><i>... {entity.hidden} more</i></td></tr>')
    style = 'border="1" cellborder="0" cellspacing="0" cellpadding="3" color="#2f4f6f" bgcolor="#f7f9fb"'
    return f"<table {style}>{''.join(rows)}</table>"


def _row(number: int, attribute: Attribute) -> str:
    key = ", ".join(label for label, true in (("PK", attribute.key), ("FK", attribute.joins)) if true)
    name = f"<b>{_text(attribute.name)}</b>" if attribute.key else _text(attribute.name)
    return (
        f'<tr><td align="left" port="c{number}_in">{_small(key)}</td>'
        f'<td align="left">{name}</td>'
        f'<td align="right" port="c{number}_out">{_small(_text(attribute.type))}</td></tr>'
    )


def _small(text: str) -> str:
    """Return the text small and grey; an empty one stays empty, which `<font>` must not be."""
    return f'<font color="#888888" point-size="9">{text}</font>' if text else ""


def _edge(nodes: dict[str, str], ports: dict[str, dict[str, str]], edge: Edge) -> str:
    tail, head = nodes[edge.many], nodes[edge.one]
    if edge.pairs:
        mine, theirs = edge.pairs[0]
        tail += _port(ports[edge.many].get(mine), "out:e")
        head += _port(ports[edge.one].get(theirs), "in:w")
    ends = _ENDS.get(edge.relationship, _ENDS["many_to_one"])
    arrow = "teeodot" if edge.optional and edge.relationship != "many_to_many" else ends[1]
    style = "solid" if edge.origin == "formal" else "dashed"
    colour = _COLOURS.get(edge.origin, _COLOURS["manual"])
    said = edge_label(edge) if len(edge.pairs) != 1 else "" if edge.origin == "formal" else edge.origin
    label = f", label={_string(said)}" if said else ""
    return f'  {tail} -> {head} [arrowtail={ends[0]}, arrowhead={arrow}, style={style}, color="{colour}"{label}];'


def _port(port: str | None, side: str) -> str:
    return "" if port is None else f":{port}_{side}"


def _text(text: str) -> str:
    """Return text for an HTML-like label, which must not be empty."""
    return html.escape(visible(one_line(text, _NAME_LENGTH)), quote=True) or " "


def _string(text: str) -> str:
    flat = visible(one_line(text, _NAME_LENGTH)).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{flat}"'
