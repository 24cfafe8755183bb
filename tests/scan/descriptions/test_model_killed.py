"""A describing process that is killed after five tables has five; the next one asks only for the rest."""

from __future__ import annotations

import asyncio
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import EnrichmentStore, open_enrichment_store
from ktx_cli.prompts.prompts import load_prompt
from ktx_cli.scan.descriptions.batches import Limits
from ktx_cli.scan.descriptions.facts import gather_facts
from ktx_cli.scan.descriptions.model import Descriptions, describe
from ktx_cli.testing.model_server import ModelServer

KILLED = """
import asyncio, os, pickle, signal, sys
from pathlib import Path
from ktx_cli.prompts.prompts import load_prompt
from ktx_cli.scan.descriptions.model import describe
from ktx_cli.scan.descriptions.batches import Limits
from ktx_cli.llm.routing import create_runtime
from ktx_cli.project.state import open_enrichment_store
from ktx_cli.project.layout import Layout
from ktx_cli.testing.runtime_subjects import subject_config

def progress(done, total):
    if done == 5:
        os.kill(os.getpid(), signal.SIGKILL)

root = Path(sys.argv[1])
facts = pickle.loads((root / "facts").read_bytes())
runtime = create_runtime(subject_config("anthropic", sys.argv[2]), root, {}, usage_sink=lambda fact: None)
with open_enrichment_store(Layout(root)) as store:
    asyncio.run(describe(runtime, facts, store, prompt=load_prompt("describe_tables"), privacy="local",
        concurrency=1, limits=Limits(tables=1), on_progress=progress))
"""


@pytest.mark.slow
def test_five_tables_are_kept(
    table: Any, runtime: RoutedRuntime, model_server: ModelServer, describer: Any, tmp_path: Path
) -> None:
    facts = gather_facts([table(f"t{number}", "id int, name text", key="id") for number in range(8)], profiles={})
    (tmp_path / "facts").write_bytes(pickle.dumps(facts))
    model_server.play(describer())
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), model_server.url])
    assert done.returncode == -signal.SIGKILL

    rest = describer()
    model_server.play(rest)

    async def go_on(store: EnrichmentStore) -> Descriptions:
        async with runtime:
            return await describe(
                runtime, facts, store, prompt=load_prompt("describe_tables"), privacy="local", limits=Limits(tables=1)
            )

    with open_enrichment_store(Layout(tmp_path)) as store:
        found = asyncio.run(go_on(store))
    assert sorted({name for name, _ in rest.columns}) == ["t5", "t6", "t7"]
    assert [each.text for each in found.tables] == [f"Rows about t{number} things." for number in range(8)]
