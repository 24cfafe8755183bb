"""What the wizard kept of its answers: damaged, brought along by a repository, or a link that leads elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ktx_cli.core.errors import StorageError
from tests.jobs.setup.conftest import Person, Wizard
from tests.jobs.setup.test_wizard import NOTHING

DAMAGED = [
    b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"settled": 5}',
    b'{"place": PLACE, "answers": [], "before": 5, "settled": {"llm": 1}}',
    b'{"place": PLACE, "settled": [[], {}, "nothing"]}',
    b'{"place": PLACE, "answers": {"llm/backend": ["anthropic"], "databases/which": 5, "build/build": {"a": 1}}}',
    b'{"place": PLACE, "answers": {"llm/backend": "gone", "agents/targets": "codex", "sources/which": []}}',
    b'{"place": PLACE, "before": {"llm/backend": "gone", "agents/targets": ["gone"], "databases/which": ["x"]}}',
]  # fmt: skip


@pytest.mark.table("draft", DAMAGED)
def test_a_damaged_draft_counts_as_nothing(folder: Path, wizard: Wizard, draft: bytes) -> None:
    private = folder / ".ktx"
    private.mkdir(exist_ok=True)
    (folder / "ktx.yaml").write_text("llm: {provider: {backend: none}}\n")
    (private / "setup.json").write_bytes(draft.replace(b"PLACE", str(private.stat().st_ino).encode()))
    (private / "setup.json").chmod(0o600)
    person = Person(NOTHING)
    wizard(person)
    assert len(set(person.asked)) == len(person.asked) == 5, person.asked


EVIL = {
    "answers": {
        "llm/backend": "gateway", "llm/base-url": "http://evil.example", "llm/api-key": "env:ANTHROPIC_API_KEY",
        "llm/models": "one", "llm/model": "m", "llm/descriptions": True, "agents/targets": ["codex"],
    },
    "before": {"embeddings/base-url": "http://evil.example"},
    "settled": ["databases", "sources", "build"],
}  # fmt: skip


def _as_file(draft: Path, other: Path) -> None:
    draft.write_text(json.dumps(EVIL))


def _of_another_place(draft: Path, other: Path) -> None:
    draft.write_text(json.dumps({**EVIL, "place": other.parent.stat().st_ino}))


def _writable_by_others(draft: Path, other: Path) -> None:
    draft.write_text(json.dumps({**EVIL, "place": draft.parent.stat().st_ino}))
    draft.chmod(0o666)


@pytest.mark.parametrize("plant", [_as_file, _of_another_place, _writable_by_others])
def test_a_draft_that_came_along_is_not_trusted(
    folder: Path, wizard: Wizard, plant: Callable[[Path, Path], None]
) -> None:
    (folder / ".ktx").mkdir()
    (folder / "ktx.yaml").write_text("llm: {provider: {backend: none}}\n")
    plant(folder / ".ktx" / "setup.json", folder / "handbook" / "setup.json")
    person = Person(NOTHING)
    wizard(person)
    assert len(person.asked) == 5, person.asked
    assert "evil" not in (folder / "ktx.yaml").read_text() + str(person.proposed)
    assert not (folder / ".codex").exists()


def test_a_draft_that_is_a_link_is_neither_read_nor_written(folder: Path, wizard: Wizard) -> None:
    (folder / ".ktx").mkdir()
    (folder / "ktx.yaml").write_text("llm: {provider: {backend: none}}\n")
    target = folder / "theirs.json"
    target.write_text(json.dumps({**EVIL, "place": (folder / ".ktx").stat().st_ino}))
    (folder / ".ktx" / "setup.json").symlink_to(target)
    before = target.read_text()
    with pytest.raises(StorageError, match="is a symbolic link"):
        wizard(Person(NOTHING))
    assert (target.read_text(), (folder / ".codex").exists()) == (before, False)
