"""Who may import the SDKs, know a backend's name, or call a model: read from the source."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import ktx_cli
from ktx_cli.project.config.blocks import Backend

ROOT = Path(ktx_cli.__file__).parent
SDKS = frozenset({"anthropic", "claude_agent_sdk", "mcp", "openai", "boto3", "botocore", "google.genai"})
CLIENT_FILES = ("jobs/clients/", "cli/commands/agents.py")
"""Where names of agent clients stand, of which one is that of a backend too."""
EMBEDDING_FILES = ("jobs/setup/detect/embeddings.py", "jobs/setup/plan.py", "jobs/setup/wizard/wizard.py")
"""Where names of backends for embeddings stand, of which one is that of a model backend too."""
BACKENDS = frozenset(Backend.__args__) - {"none"}  # type: ignore[attr-defined]
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))


def outside(*folders: str) -> list[str]:
    """Return the modules that are in none of the folders."""
    found = [module for module in MODULES if not module.startswith(folders)]
    assert len(found) > 50, "the walk found the package"
    return found


@functools.cache
def text(module: str) -> str:
    return (ROOT / module).read_text("utf-8")


@functools.cache
def tree(module: str) -> ast.Module:
    return ast.parse(text(module), module)


def speaking_of(modules: list[str], words: Iterable[str]) -> list[str]:
    """Return the modules in whose text one of the words stands; the others need no parsing."""
    found = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)")
    return [module for module in modules if found.search(text(module))]


def imports(source: ast.AST) -> Iterator[str]:
    """Yield the top-level packages a module imports, also by a call."""
    for node in ast.walk(source):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").split(".")[0]
        elif isinstance(node, ast.Call) and _name(node.func) in ("import_module", "__import__", "find_spec"):
            yield from (str(one.value).split(".")[0] for one in node.args[:1] if isinstance(one, ast.Constant))


@functools.cache
def packages(module: str) -> frozenset[str]:
    """Return what a module imports."""
    return frozenset(imports(tree(module)))


def decisions(source: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and backend's name wherever a module decides by one."""
    for node in ast.walk(source):
        for part in _deciding_parts(node):
            for one in ast.walk(part):
                if isinstance(one, ast.Constant) and one.value in BACKENDS:
                    yield one.lineno, str(one.value)


def _deciding_parts(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.MatchValue):
        return [node.value]
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key is not None]
    if isinstance(node, ast.Subscript):
        return [node.slice]
    if isinstance(node, ast.Call) and _name(node.func) in ("get", "startswith", "endswith", "pop", "index", "count"):
        return list(node.args)
    if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Tuple | ast.Set | ast.List):
        return [node.value]
    return []


ASKING = ("messages", "completions", "responses", "ClaudeSDKClient", "ClaudeAgentOptions", "query", "/v1/messages")
"""What stands in the text of everything that `model_calls` finds."""


def model_calls(source: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and words of everything that asks a model."""
    for node in ast.walk(source):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            path = _path(node.func)
            if path.endswith(
                ("messages.create", "messages.stream", "messages.parse", "completions.create", "responses.create")
            ):
                yield node.lineno, path
        if isinstance(node, ast.Name | ast.Attribute) and _name(node) in ("ClaudeSDKClient", "ClaudeAgentOptions"):
            yield node.lineno, _name(node)
        if isinstance(node, ast.ImportFrom):
            of_sdk = (node.module or "").split(".")[0] in SDKS
            names = {"ClaudeSDKClient", "query"} if of_sdk else {"ClaudeSDKClient"}
            yield from ((alias.lineno, alias.name) for alias in node.names if alias.name in names)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "/v1/messages" in node.value:
            yield node.lineno, node.value[:60]


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _path(node: ast.AST) -> str:
    return f"{_path(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else _name(node)


@pytest.mark.requirement("R1", "R7", "R11", "C1")
@pytest.mark.table("module", lambda: speaking_of(outside("llm/", "testing/"), SDKS))
def test_only_the_port_and_its_test_tools_import_an_sdk(module: str) -> None:
    served = {"mcp"} if module.startswith("mcp/") else set()  # the server of agents speaks the protocol by its SDK
    assert (SDKS - served).isdisjoint(packages(module))


@pytest.mark.requirement("R7", "R11", "C18")
@pytest.mark.table(
    "module", lambda: speaking_of(outside("llm/", "project/config/", "jobs/health/", *CLIENT_FILES), BACKENDS)
)
def test_nobody_else_decides_by_a_backends_name(module: str) -> None:
    of_embeddings = {"openai"} if module.startswith(EMBEDDING_FILES) else set()
    assert [found for found in decisions(tree(module)) if found[1] not in of_embeddings] == []


@pytest.mark.house
@pytest.mark.requirement("R1", "R11")
@pytest.mark.table("module", lambda: speaking_of(outside("llm/", "testing/"), ASKING))
def test_nobody_else_calls_a_model(module: str) -> None:
    assert list(model_calls(tree(module))) == []


@pytest.mark.house
@pytest.mark.requirement("R7", "C1", "C18")
@pytest.mark.table("package", ["langgraph", "langchain", "langchain_core", "litellm", "claude_code_sdk", "ai"])
def test_no_other_framework_is_used(package: str) -> None:
    assert [module for module in speaking_of(MODULES, [package]) if package in packages(module)] == []


@pytest.mark.table(
    "source",
    [
        'x == "claude-code"',
        '"anthropic" != x',
        'x in ("gateway", "other")',
        'x not in {"vertex"}',
        'match x:\n    case "claude-cli":\n        pass',
        'match x:\n    case "a" | "codex":\n        pass',
        'table = {"claude-code": 1}[x]',
        'config["anthropic"]',
        'config.get("gateway")',
        'x.startswith("claude-cli")',
        'OWN = ("claude-code",)',
    ],
)
def test_the_search_finds_a_decision(source: str) -> None:
    assert list(decisions(ast.parse(source)))


@pytest.mark.table("source", ['hint = "ktx setup --llm-backend claude-code"', 'print("anthropic")', 'x == "none"'])
def test_the_search_leaves_words_alone(source: str) -> None:
    assert list(decisions(ast.parse(source))) == []


@pytest.mark.table(
    "source",
    [
        "client.messages.create(x=1)",
        "await_ = client.beta.messages.stream()",
        "client.chat.completions.create()",
        "client.responses.create()",
        "claude_agent_sdk.ClaudeSDKClient()",
        "from claude_agent_sdk import query",
        'url = "http://host/v1/messages"',
    ],
)
def test_the_search_finds_a_model_call(source: str) -> None:
    assert list(model_calls(ast.parse(source)))


@pytest.mark.table(
    "source", ["import anthropic.types", "from mcp import x", 'importlib.import_module("claude_agent_sdk.types")']
)
def test_the_search_finds_an_import(source: str) -> None:
    assert not SDKS.isdisjoint(imports(ast.parse(source)))


@pytest.mark.table("module", ["ktx_cli.cli.app", "ktx_cli.llm.routing", "ktx_cli.llm.probe"])
def test_no_sdk_is_loaded_before_a_call_needs_it(module: str) -> None:
    names = (*sorted(SDKS), "opentelemetry", "httpx2")
    program = f"import sys, {module}; print(*[name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""
