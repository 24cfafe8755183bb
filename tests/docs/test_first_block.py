"""The first block of the README works for somebody who has only a clone; CI runs both commands on one."""

from __future__ import annotations

import re

from tests.docs.blocks import ROOT, blocks_of


def test_the_first_block_of_the_readme_is_two_targets_of_the_makefile_that_need_only_a_clone() -> None:
    first = blocks_of((ROOT / "README.md").read_text("utf-8"), "README.md")[0]
    commands = [line.partition("#")[0].split() for line in first.text.splitlines()]
    assert commands == [["make", "demo"], ["make", "test"]]
    rules = dict(
        re.findall(r"^([a-z]+): \$\(STAMP\)[^\n]*\n((?:\t[^\n]*\n)+)", (ROOT / "Makefile").read_text("utf-8"), re.M)
    )
    assert "$(BIN)/ktx demo ktx-demo" in rules["demo"], "it does the main job, with the ktx it installed"
    assert "pytest" in rules["test"]


def test_ci_runs_what_the_page_names() -> None:
    lines = (ROOT / ".ci/run").read_text("utf-8").splitlines()
    assert {"make check test", "make test-sweeps", "make demo"} <= set(lines)
    run = {target for line in lines if line.startswith("make ") for target in line.split()[1:]}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    first = blocks_of((ROOT / "README.md").read_text("utf-8"), "README.md")[0]
    named = {line.split()[1] for line in first.text.splitlines()}
    assert named <= run <= targets
