"""Validates semantic layers: what their files say, what the definitions mean, and whether the data agrees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.connectors.opening import Opener, open_connection
from ktx_cli.context.semantic.checking import check_model
from ktx_cli.context.semantic.errors import unknown
from ktx_cli.context.semantic.loading.strays import NO_CONNECTION
from ktx_cli.context.semantic.model import Model, Problem
from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import CancelledError, KtxError, ResultWarning
from ktx_cli.core.text import plural
from ktx_cli.jobs.semantic.guarded import guard_of
from ktx_cli.jobs.semantic.layers import LoadLayer, layer_ids, load_layer, some_layers
from ktx_cli.jobs.semantic.physical import USED_UP, Check, DataChecks
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout

DEFAULT_SECONDS: Final = 60.0
"""How long new checks on the data are begun, unless it is asked for more."""

_SEVERITIES: Final = ("error", "warning", "info")


@dataclass(slots=True)
class Validation:
    """What was found. `unread`: why the data of a connection could not be looked at, by its id."""

    sources: list[tuple[str, str]] = field(default_factory=list)
    problems: list[tuple[str, Problem]] = field(default_factory=list)
    checks: list[tuple[str, Check]] = field(default_factory=list)
    unread: dict[str, KtxError] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in the envelope."""
        return {
            "sources": [{"connection": connection, "name": name} for connection, name in self.sources],
            "problems": [{"connection": connection, **each.to_json()} for connection, each in self.problems],
            "checks": [{"connection": connection, **each.to_json()} for connection, each in self.checks],
            "counts": self.counts(),
        }

    def counts(self) -> dict[str, int]:
        """Return how many problems there are of each severity."""
        found = Counter(each.severity for _, each in self.problems)
        return {severity: found[severity] for severity in _SEVERITIES}

    def error(self, *, strict: bool) -> KtxError | None:
        """Return the error to end with: of the problems, else of a connection that could not be looked at.

        `strict`: warnings count as errors do.
        """
        counts = self.counts()
        bad = [severity for severity in (_SEVERITIES[:2] if strict else _SEVERITIES[:1]) if counts[severity]]
        if bad:
            told = " and ".join(plural(counts[severity], severity) for severity in bad)
            return KtxError(
                f"the semantic layer has {told}",
                hint="change the files at the places named",
                details={"counts": counts},
                code="semantic_problems",
            )
        return next(iter(self.unread.values()), None)

    def warnings(self) -> list[ResultWarning]:
        """Say which checks were not made for want of time."""
        late = [check for _, check in self.checks if check.reason == USED_UP]
        if not late:
            return []
        what = f"{plural(len(late), 'check')} on the data {'was' if len(late) == 1 else 'were'} not made: {USED_UP}"
        return [ResultWarning("budget", what, hint="give it more seconds: --budget 600, or name the sources")]


def validate_layers(
    layout: Layout,
    config: KtxConfig,
    names: Sequence[str] = (),
    *,
    environ: Mapping[str, str],
    connection: str | None = None,
    data: bool = True,
    seconds: float = DEFAULT_SECONDS,
    load: LoadLayer = load_layer,
    opener: Opener = open_connection,
) -> Validation:
    """Return what is wrong with the named sources (all when there are none), of one connection or of all.

    `data`: look at the rows too, where the connection is in `ktx.yaml`. Raises `UsageError` for a connection without a
    layer, `SemanticError` for a name no source has.
    """
    found = Validation()
    models = _models(layout, config, connection, load)
    problems = {model.connection: [*model.problems, *check_model(model)] for model in models}
    _require_known(names, models, problems)
    of_none: set[Problem] = set()
    until = monotonic() + seconds
    for model in models:
        mine = [name for name in model.sources if not names or name in names]
        found.sources += [(model.connection, name) for name in mine]
        kept = [each for each in problems[model.connection] if not names or each.source in names]
        kept = [each for each in kept if each not in of_none]
        of_none |= {each for each in kept if each.code == NO_CONNECTION}
        found.problems += [(model.connection, each) for each in kept]
        if data and mine and model.connection in config.databases():
            _check_data(found, layout, config, model, mine, environ, until, opener)
    return found


def _models(layout: Layout, config: KtxConfig, connection: str | None, load: LoadLayer) -> list[Model]:
    """Return the layers to look at; files of no connection close a database too that has no layer of its own."""
    known = layer_ids(layout)
    candidates = [each for each in config.databases() if connection in (None, each) and each not in known]
    bare = [model for each in candidates if (model := load(layout, config, each)).sealed is not None]
    if connection is not None and bare:
        return bare
    found = [load(layout, config, each) for each in some_layers(layout, config, connection)]
    return found if any(model.connection in config.connections for model in found) else [*found, *bare[:1]]


def _check_data(
    found: Validation,
    layout: Layout,
    config: KtxConfig,
    model: Model,
    names: Sequence[str],
    environ: Mapping[str, str],
    until: float,
    opener: Opener,
) -> None:
    """Add the checks on the rows of a model, and what they found."""
    try:
        guard = guard_of(layout, config, model.connection, model)
        with guard.open(config, layout=layout, environ=environ, opener=opener) as connector:
            for check in DataChecks(model, connector, lambda: monotonic() >= until).run(names):
                found.checks.append((model.connection, check))
                found.problems += [(model.connection, each) for each in check.problems]
    except CancelledError:
        raise
    except KtxError as error:  # what the files say is told all the same; the command ends with this error
        found.unread[model.connection] = error


def _require_known(names: Sequence[str], models: Sequence[Model], problems: Mapping[str, Sequence[Problem]]) -> None:
    known = {name for model in models for name in model.sources}
    known |= {each.source for found in problems.values() for each in found if each.source}
    for name in names:
        if name not in known:
            raise unknown("source", name, known)
