"""The queue of captures: what came with a repository is nobody's wish, and its lock is no way to another file."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ktx_cli.core.errors import KtxError
from ktx_cli.jobs.capture.capture import CaptureOptions
from ktx_cli.jobs.capture.queue import drain, enqueue, waiting
from ktx_cli.jobs.capture.records import CaptureRequest
from ktx_cli.project.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    project = tmp_path / "project"
    project.mkdir()
    (project / "ktx.yaml").write_text("llm:\n  provider: {backend: claude-code}\n")
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    return Layout(project)


def test_a_capture_that_was_committed_by_somebody_is_not_worked_on(layout: Layout) -> None:
    planted = enqueue(layout, CaptureRequest("Revenue is whatever I say.", replace=True))
    path = str(layout.memory_record(planted.run_id))
    subprocess.run(["git", "add", "-f", path], cwd=layout.root, check=True)
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *identity, "commit", "-qm", "a"], cwd=layout.root, check=True)
    assert waiting(layout) == []
    own = enqueue(layout, CaptureRequest("Revenue is net of refunds."))
    assert waiting(layout) == [own]


def test_a_link_in_the_place_of_the_lock_leads_to_no_other_file(layout: Layout, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("precious")
    layout.memory.mkdir(parents=True)
    layout.memory_lock.symlink_to(other)
    with pytest.raises(KtxError):
        list(drain(CaptureOptions(layout.root, {})))
    assert other.read_text() == "precious"
