"""The pages about models say what the code does, and nothing they must not promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ktx_cli.core.events import Event
from ktx_cli.llm import types
from ktx_cli.llm.backends.claude import binary, launcher
from ktx_cli.llm.errors import CODES
from ktx_cli.llm.registry import backend_kinds
from ktx_cli.project.config.blocks import ROLES, SUPPORTED_BACKENDS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / name for name in ("concepts/runtime-port.md", "concepts/isolation.md", "guides/llm.md")]
TEXT = "\n".join(page.read_text("utf-8") for page in PAGES)
MARKETING = re.compile(r"claude (max|pro)\b|pro/max", re.IGNORECASE)


def section(title: str) -> str:
    return TEXT.split(f"# {title}\n", 1)[1].split("\n#", 1)[0]


def named(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


@pytest.mark.requirement("R60")
def test_what_is_scrubbed_is_what_the_code_scrubs() -> None:
    scrubbed = section("What is scrubbed")
    set_by_us = {f"{name}={value}" for name, value in launcher.SWITCHED_OFF.items()}
    assert named(scrubbed) >= set(launcher.DENIED_PREFIXES) | launcher.KEPT | set_by_us
    claimed = {name for name in named(scrubbed) if name.endswith("_")}
    assert claimed == set(launcher.DENIED_PREFIXES)


@pytest.mark.requirement("R9", "R60")
def test_every_backend_role_error_and_event_is_on_the_page() -> None:
    assert set(SUPPORTED_BACKENDS) | {"none"} <= named(section("Backends"))
    assert set(ROLES) <= named(section("The port"))
    rows = re.findall(r"^\| `(\w+)` \|", section("Errors"), re.MULTILINE)
    assert rows == list(CODES)
    kinds = {kind.__name__ for kind in Event.__subclasses__() if kind.__module__ == types.__name__}
    assert kinds <= named(section("Events and usage"))
    origins = {word for kind in backend_kinds() for word in (kind.source, kind.executor_type)}
    assert origins <= named(section("Events and usage"))
    assert ".".join(str(part) for part in binary.MINIMUM) in section("The Claude Code binary")


@pytest.mark.requirement("R15", "R60")
def test_the_non_goals_are_said() -> None:
    said = section("What this is not for")
    for words in ("Embeddings", "Use your own local Claude Code session", "resell", "pool", "Repair within a step"):
        assert words in said
    assert "llm-parity.md" in TEXT and "prompt_caching_ignored" in section("Prompt caching")


@pytest.mark.requirement("R15")
def test_nothing_sells_a_subscription() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", *(ROOT / "ktx_cli").rglob("*.py")]
    found = [path.name for path in pages if MARKETING.search(path.read_text("utf-8"))]
    assert found == []


@pytest.mark.requirement("R60")
def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)[)#]", page.read_text("utf-8")):
            assert (page.parent / target).exists(), target
