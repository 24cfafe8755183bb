"""Probes of several models at once, and whose settings and credentials they were made with."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import KtxError
from ktx_cli.llm.probe import ProbeRun, credentials_of, probe_through
from ktx_cli.llm.settings import ModelRef
from ktx_cli.testing.runtime_subjects import subject_config

REFS = {ModelRef("anthropic", f"model-{number}"): ("default",) for number in range(6)}


class Together:
    """A runtime whose probes end when all of them have begun."""

    def __init__(self) -> None:
        self.barrier = asyncio.Barrier(len(REFS))

    async def probe(self, *, role: str, model: str) -> Any:
        await asyncio.wait_for(self.barrier.wait(), 5)
        if model.endswith("3"):
            raise KtxError("no such model", code="model")
        return model


def test_models_are_probed_side_by_side_and_told_in_order() -> None:
    async def run() -> ProbeRun:
        probes = ProbeRun()
        await probe_through(Together(), REFS, probes)  # type: ignore[arg-type]
        return probes

    probes = asyncio.run(run())
    assert [each.ref for each in probes.results] == list(REFS)
    assert [str(each.report) for each in probes.results if each.error is None] == [
        str(ref) for ref in REFS if ref.model != "model-3"
    ]
    assert probes.error() is not None


@pytest.mark.parametrize(
    ("environ", "url", "backend"),
    [
        ({"KEY": "other"}, "http://here", "anthropic"),
        ({"KEY": "one", "ANTHROPIC_BASE_URL": "http://x"}, "http://here", "anthropic"),
        ({"KEY": "one", "HOME": "/elsewhere"}, "http://here", "anthropic"),
        ({"KEY": "one"}, "http://there", "anthropic"),
        ({"KEY": "one"}, "http://here", "claude-code"),
    ],
)
def test_other_credentials_or_settings_give_another_digest(
    environ: dict[str, str], url: str, backend: str, tmp_path: Path
) -> None:
    def digest(environ: dict[str, str], url: str, backend: str) -> str | None:
        config = subject_config("anthropic", url)
        config.llm.provider.anthropic.api_key = "env:KEY"
        return credentials_of(config, backend, project_dir=tmp_path, environ=environ)

    first = digest({"KEY": "one"}, "http://here", "anthropic")
    assert first is not None and first == digest({"KEY": "one", "TERM": "x"}, "http://here", "anthropic")
    assert digest(environ, url, backend) not in (None, first)
    assert digest({}, "http://here", "anthropic") is None
