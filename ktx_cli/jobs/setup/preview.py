"""What setup would do, without doing it: the steps, and the difference in `ktx.yaml`, secrets masked."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktx_cli.core import ConfigError, ResultWarning, listing
from ktx_cli.jobs.setup.answers import Answers, Build
from ktx_cli.jobs.setup.plan import kept, planned
from ktx_cli.jobs.setup.request import SetupRequest
from ktx_cli.jobs.setup.save import same_secret
from ktx_cli.jobs.setup.secrets import reference_to
from ktx_cli.jobs.setup.setup import existing_folder, require_folder
from ktx_cli.llm import NO_BACKEND
from ktx_cli.project import (
    CONFIG_NAME,
    MASK,
    Layout,
    Repository,
    edit,
    is_literal_secret,
    load_config,
    mask,
    read_bytes,
    redact_url,
    remember,
    values_of,
)


@dataclass(frozen=True, slots=True)
class Preview:
    """What would happen. `steps`: pairs of what and how; `diff`: lines of a unified diff of `ktx.yaml`."""

    project_dir: Path
    steps: tuple[tuple[str, str], ...]
    diff: tuple[str, ...]
    warnings: list[ResultWarning] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the envelope."""
        return {
            "project_dir": str(self.project_dir),
            "steps": [{"step": step, "would": would} for step, would in self.steps],
            "diff": list(self.diff),
        }


def preview(request: SetupRequest) -> Preview:
    """Return what `setup` would do with this request; connects to nothing and writes nothing; raises as it does."""
    layout = Layout(request.project_dir)
    require_folder(layout.root)
    before = read_bytes(layout.config)
    plan = planned(request.answers, before, same_secret(request))
    secrets: list[str] = []

    def keep(name: str, secret: str) -> str:
        secrets.append(name)
        return reference_to(layout, name, secret, request.answers.keeping)

    shown = planned(kept(request.answers, keep, plan.connections), before).text
    loaded = load_config(layout.config, data=shown)
    steps = tuple(_steps(request, layout, before, shown, secrets))
    return Preview(layout.root, steps, _diff(before or b"", shown), loaded.notices())


def _steps(
    request: SetupRequest, layout: Layout, before: bytes | None, after: bytes, secrets: list[str]
) -> Iterator[tuple[str, str]]:
    answers = request.answers
    if before is None:
        yield "project", f"make {CONFIG_NAME} in {layout.root}"
        if Repository.discover(existing_folder(layout.root)) is None:
            yield "git", f"make a repository in {layout.root}"
    tried = list(_tried(answers)) if request.test else []
    if tried:
        yield "test", f"try {listing(tried, len(tried))}"
    if secrets:
        yield "secrets", f"keep {listing(secrets, len(secrets))} in the {answers.keeping}"
    if after != before:
        yield CONFIG_NAME, "save and commit it"
    if answers.build not in (None, Build.NONE):
        yield "build", f"read {'the structure of the databases' if answers.build is Build.STRUCTURE else 'everything'}"
    if answers.agents is not None:
        yield "agents", f"put the project into {listing(answers.agents.targets, len(answers.agents.targets))}"


def _tried(answers: Answers) -> Iterator[str]:
    if answers.llm is not None and answers.llm.backend != NO_BACKEND:
        yield "the models"
    if answers.embeddings is not None and answers.embeddings.backend != "none":
        yield "the embeddings"
    yield from (answer.id or f"the {answer.driver} connection" for answer in answers.connections)


def _diff(before: bytes, after: bytes) -> tuple[str, ...]:
    old, new = (_without_secrets(text).decode("utf-8", "replace").splitlines() for text in (before, after))
    lines = difflib.unified_diff(old, new, CONFIG_NAME, f"{CONFIG_NAME} (planned)", lineterm="")
    return tuple(redact_url(mask(line)) for line in lines)


def _without_secrets(text: bytes) -> bytes:
    """Return the text of `ktx.yaml` with the secrets masked that stand in clear in it, however they are written."""
    config = load_config(Path(CONFIG_NAME), data=text).config
    for keys, declared, value in values_of(config):
        if isinstance(value, str) and is_literal_secret(declared, keys[-1], value):
            for line in value.splitlines():
                remember(line)
            with contextlib.suppress(ConfigError):  # where it cannot be placed its lines are masked
                text = edit.set_value(text, keys, MASK, where=CONFIG_NAME)
    return text.replace(f'"{MASK}"'.encode(), MASK.encode())
