"""Measures the structure of the code: module sizes, imports, import cycles, and the boundaries of packages.

`make check` runs this script. It prints every figure with its limit, and exits 1 if a figure exceeds its limit.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "ktx_cli"
FACED = (
    *("core", "telemetry", "project", "llm", "warehouses", "prompts", "privacy", "semantic", "documents", "wiki"),
    *("scan", "protection", "search", "sources", "agent_tools", "runs", "engine"),
)
"""Packages that other packages may import only through their `__init__`, their face."""


def _dialects(folder: Path = ROOT / PACKAGE / "warehouses") -> frozenset[str]:
    """Return the names of databases and dialects, from each folder's `__init__` and function lists."""
    texts = [face.read_text("utf-8") for face in folder.glob("*/__init__.py")]
    named = {name for text in texts for name in re.findall(r'^    (?:driver|dialect)="(\w+)"', text, re.MULTILINE)}
    return frozenset(named | {path.stem.partition("_")[2] for path in folder.glob("*/functions_*.txt")})


DIALECTS = _dialects()
RULES = f"{PACKAGE}.jobs.check.lint.rules."
"""Each lint rule is a module with its code, explanation, check and examples, however short it is."""
FOLDERS = re.compile(
    rf"{PACKAGE}\.(?:warehouses\.(?!guard|worker)|sources\.|semantic\.interchange\.|llm\.backends\.)\w+\."
)
"""Each warehouse, source, format and backend is a folder of its own: their number grows with what ktx reaches, not with
what a maintainer has to know.
"""
LOOP = "run_agent_loop"
"""The method of the runtime port that runs a model with tools."""


@dataclass(frozen=True)
class Module:
    """One module of the package, parsed."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        """The source."""
        return self.path.read_text("utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """The source, parsed."""
        return ast.parse(self.text)

    @property
    def is_face(self) -> bool:
        """Whether the module is the `__init__` of a package."""
        return self.path.name == "__init__.py"

    @property
    def package(self) -> str:
        """The package of the module, below the root; empty for modules of the root."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 2 or (self.is_face and len(parts) == 2) else ""

    @cached_property
    def lines(self) -> int:
        """The number of lines."""
        return self.text.count("\n")

    @cached_property
    def code_lines(self) -> set[int]:
        """The lines that contain code, without blank lines, comments and docstrings."""
        kept = {number for number, line in enumerate(self.text.splitlines(), 1) if _is_code(line)}
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            for each in body if isinstance(body, list) else ():
                if (
                    isinstance(each, ast.Expr)
                    and isinstance(each.value, ast.Constant)
                    and isinstance(each.value.value, str)
                ):
                    kept -= set(range(each.lineno, (each.end_lineno or each.lineno) + 1))
        return kept

    @cached_property
    def import_lines(self) -> set[int]:
        """The lines of code that belong to imports."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return found & self.code_lines


def _is_code(line: str) -> bool:
    text = line.strip()
    return bool(text) and not text.startswith("#")


def modules(root: Path = ROOT) -> dict[str, Module]:
    """Return the modules of the program by name, without its test helpers."""
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = list(path.relative_to(root).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        if parts[1:2] != ["testing"]:
            found[".".join(parts)] = Module(".".join(parts), path)
    return found


def imported(module: Module, known: dict[str, Module]) -> Iterator[tuple[str, int]]:
    """Yield the modules of the program that a module imports, each with its line."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == PACKAGE:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield (inner if inner in known else node.module), node.lineno
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == PACKAGE:
                    yield alias.name, node.lineno


def homes(known: dict[str, Module]) -> dict[tuple[str, str], str]:
    """Return the module that defines each name that a face exports."""
    found = {}
    for name, module in known.items():
        if module.is_face:
            for node in ast.walk(module.tree):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(name + "."):
                    for alias in node.names:
                        found[name, alias.asname or alias.name] = node.module
    return found


def graph(known: dict[str, Module]) -> dict[str, set[str]]:
    """Return which module imports which. A name from a face counts as an import of the module that defines it."""
    behind = homes(known)
    edges: dict[str, set[str]] = defaultdict(set)
    for name, module in known.items():
        if module.is_face:
            continue
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ImportFrom) or not node.module or node.module.split(".")[0] != PACKAGE:
                continue
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                target = inner if inner in known else behind.get((node.module, alias.name), node.module)
                if target != name and target in known and not known[target].is_face:
                    edges[name].add(target)
    return edges


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other in a cycle."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for target in sorted(edges.get(name, ())):
            if target not in order:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], order[target])
        if low[name] == order[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for name in sorted(edges):
        if name not in order:
            visit(name)
    return found


def behind_faces(known: dict[str, Module]) -> list[str]:
    """Return the imports that bypass the face of a package.

    A face may export a module, as `core` does with `yaml`.
    """
    given = {
        f"{node.module}.{alias.name}"
        for name, module in known.items()
        if module.is_face
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.module == name
        for alias in node.names
    }
    found = []
    for name, module in known.items():
        for target, line in imported(module, known):
            parts = target.split(".")
            if len(parts) > 2 and parts[1] in FACED and parts[1] != module.package and target not in given:
                found.append(f"{name}:{line} {target}")
    return found


def dialect_names(known: dict[str, Module]) -> list[str]:
    """Return the places outside `warehouses` that compare or list names of warehouses."""
    found = []
    for name, module in known.items():
        if module.package == "warehouses":
            continue
        nodes = list(ast.walk(module.tree))
        types = {id(node.slice) for node in nodes if isinstance(node, ast.Subscript)}  # as in `Literal["a", "b"]`
        found += [
            f"{name}:{node.lineno} {ast.unparse(node)[:70]}"
            for node in nodes
            if isinstance(node, ast.expr) and id(node) not in types and _knows_dialects(node)
        ]
    return found


def _knows_dialects(node: ast.expr) -> bool:
    """Whether an expression compares a warehouse name, or is a mapping, set or list that contains two of them."""
    if isinstance(node, ast.Compare):
        return any(_is_dialect(part) for side in (node.left, *node.comparators) for part in ast.walk(side))
    if isinstance(node, ast.Dict):
        return max(sum(map(_is_dialect, node.keys)), sum(map(_is_dialect, node.values))) > 1
    return isinstance(node, ast.Set | ast.Tuple | ast.List) and sum(map(_is_dialect, node.elts)) > 1


def _is_dialect(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in DIALECTS


def loops(known: dict[str, Module]) -> list[str]:
    """Return the modules outside `llm` that run a model with tools."""
    return [
        name
        for name, module in known.items()
        if module.package != "llm"
        and any(
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == LOOP
            for node in ast.walk(module.tree)
        )
    ]


def main() -> int:
    """Print every figure with its limit."""
    known = modules()
    plain = [module for module in known.values() if not module.is_face]
    sizes = [module.lines for module in plain]
    house = [module for module in plain if not module.name.startswith(RULES) and not FOLDERS.match(module.name)]
    small = [module.name for module in plain if module.lines < 60 and not module.name.startswith(RULES)]
    code = sum(len(module.code_lines) for module in known.values())
    imports = sum(len(module.import_lines) for module in known.values())
    ing = [module.name for module in plain if module.name.endswith("ing")]
    circles, past = cycles(graph(known)), behind_faces(known)
    named, looping = dialect_names(known), loops(known)
    rows: list[tuple[str, float, str, float, list[str]]] = [
        ("modules", len(house), "<=", 450, []),
        ("median lines per module", statistics.median(sizes), ">=", 150, []),
        ("lines of the largest module", max(sizes), "<=", 900, []),
        ("modules under 60 lines, %", round(100 * len(small) / len(plain), 1), "<=", 5, small),
        ("imports among lines of code, %", round(100 * imports / code, 1), "<=", 10, []),
        ("import cycles", len(circles), "<=", 0, [" ".join(each) for each in circles]),
        ("modules whose name ends in -ing", len(ing), "<=", 15, ing),
        ("imports that bypass a face", len(past), "<=", 0, past),
        ("warehouse names outside warehouses/", len(named), "<=", 0, named),
        ("modules that run the agent loop", len(looping), "<=", 1, looping),
    ]
    failed = False
    for what, value, relation, bound, details in rows:
        holds = value >= bound if relation == ">=" else value <= bound
        failed |= not holds
        print(f"{'ok ' if holds else 'NOT'} {what:42} {value:>8g} ({relation} {bound:g})")
        if not holds:
            for each in details:
                print(f"      {each}")
    print(f"    modules with those of single warehouses, sources, formats, backends and rules {len(plain)}")
    print(f"    lines of code {code}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
