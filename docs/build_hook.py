"""Writes the commit that a wheel was built from into it, for `ktx --version` of development builds."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds `ktx_cli/commit.txt`, which has the commit. A release, whose commit has the tag of its version, has none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file where ktx is built from a repository; an editable install reads the repository itself."""
        if version == "editable":
            return
        root = Path(self.root)
        commit = _git(root, "rev-parse", "--short=10", "HEAD")
        tags = _git(root, "tag", "--points-at", "HEAD").split()
        if not commit or f"v{self.metadata.version}" in tags:
            return
        written = root / "build" / "commit.txt"
        written.parent.mkdir(exist_ok=True)
        written.write_text(commit + "\n", "utf-8")
        build_data["force_include"][str(written)] = "ktx_cli/commit.txt"


def _git(root: Path, *words: str) -> str:
    if not (root / ".git").exists():
        return ""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
