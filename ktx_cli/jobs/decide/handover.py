"""Undoes an answer to a decision point in files, and keeps the changes that other answers still need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ktx_cli.core import yaml
from ktx_cli.jobs.decide.metric_tests import is_test_of
from ktx_cli.project import CONFIG_NAME, delete_value, set_value
from ktx_cli.semantic import Alternative, DecisionAnswer, Decisions


@dataclass(frozen=True, slots=True)
class Handover:
    """The changes of an undone answer that stay because other answers build on them.

    `answers` are the other answers without it. `copied` are measures that it copied from proposals and that others
    follow too. `values` are keys of measures (`expr`, `time`) and of `ktx.yaml` that a later answer has set.
    """

    answers: tuple[DecisionAnswer, ...] = ()
    copied: frozenset[str] = frozenset()
    values: frozenset[tuple[str, str]] = frozenset()


def handover_of(decisions: Decisions, answers: Sequence[DecisionAnswer], taken: DecisionAnswer) -> Handover:
    """Return the changes made by an answer that stay. `answers` are those of all connections, earliest first."""
    chosen = {point.id: alternative for point, alternative, _ in decisions.decided()}
    others = {(each.connection, each.point): each for each in answers}
    own = (taken.connection, taken.point)
    later = list(others)[list(others).index(own) + 1 :]
    before = dict(others)
    copied, values = set[str](), set[tuple[str, str]]()
    for ref in taken.copied:
        heir = next((key for key in others if key[0] == own[0] and key != own and ref in others[key].measures), None)
        if heir is not None:
            copied.add(ref)
            others[heir] = replace(others[heir], copied=(*others[heir].copied, ref))
    for ref, replaced in taken.replaced.items():
        for name, value in replaced.items():
            for key in later:
                known = others[key].replaced.get(ref)
                if known is None or name not in known or (ref != CONFIG_NAME and key[0] != own[0]):
                    continue
                replaced_then = {**others[key].replaced, ref: {**known, name: value}}
                others[key] = replace(others[key], replaced=replaced_then)
                if ref == CONFIG_NAME or _sets(chosen.get(key[1]), name):
                    values.add((ref, name))
                    break
    changed = tuple(each for key, each in others.items() if each != before[key])
    return Handover(changed, frozenset(copied), frozenset(values))


def _sets(chosen: Alternative | None, key: str) -> bool:
    return chosen is not None and (chosen.expr if key == "expr" else chosen.time) is not None


def without_changes(
    content: bytes, document: Mapping[str, Any], answer: DecisionAnswer, handover: Handover, where: str
) -> bytes | None:
    """Return a source's file without the changes made by an answer, or None for an overlay that becomes empty."""
    before = content
    source = str(document.get("name"))
    for number, measure in reversed(list(enumerate(document.get("measures") or ()))):
        ref = f"{source}.{measure.get('name')}"
        if ref in answer.copied and ref not in handover.copied:
            content = delete_value(content, ("measures", number), where=where)
        elif ref in answer.measures:
            content = _restored(content, measure, number, answer, ref, handover, where)
    ours: Mapping[str, Callable[[Any], bool]] = {
        "segments": lambda name: answer.segment is not None and name == answer.segment,
        "tests": lambda name: is_test_of(answer.point, name),
    }
    for key, is_ours in ours.items():
        for number, each in reversed(list(enumerate(document.get(key) or ()))):
            if is_ours(each.get("name")):
                content = delete_value(content, (key, number), where=where)
    if content == before:
        return content
    for key in ("measures", "segments", "tests"):
        if document.get(key) and yaml.load(content, where=where).get(key) == []:
            content = delete_value(content, (key,), where=where)
    return None if yaml.load(content, where=where) == {"name": source} else content


def _restored(
    content: bytes,
    measure: Mapping[str, Any],
    number: int,
    answer: DecisionAnswer,
    ref: str,
    handover: Handover,
    where: str,
) -> bytes:
    """Return a file with a measure restored to its state before an answer."""
    segments = list(measure.get("segments") or ())
    if answer.segment in segments:
        path: tuple[str | int, ...] = ("measures", number, "segments")
        content = delete_value(
            content, path if len(segments) == 1 else (*path, segments.index(answer.segment)), where=where
        )
    for key, value in answer.replaced.get(ref, {}).items():
        path = ("measures", number, key)
        if (ref, key) in handover.values or key not in ("expr", "time"):
            continue
        content = (
            delete_value(content, path, where=where) if value is None else set_value(content, path, value, where=where)
        )
    return content
