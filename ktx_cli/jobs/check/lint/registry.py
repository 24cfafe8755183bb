"""A finding of `ktx lint`, how many things have a description, and both together as the answer of the command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ktx_cli.core import KtxError, UsageError, did_you_mean, plural, shell_words


class Level(StrEnum):
    """How bad a finding is; an `info` never fails the command."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to look at. `code`: a rule of the registry. `path` as git sees it, `line` from 1; None: in no file.

    `fix`: the command or the edit that helps.
    """

    code: str
    level: Level
    message: str
    fix: str
    path: str | None = None
    line: int = 1
    connection: str | None = None

    @property
    def place(self) -> str:
        """`path:line`, empty for what is in no file."""
        return "" if self.path is None else f"{self.path}:{self.line}"

    def to_json(self) -> dict[str, Any]:
        """Return the finding as it stands in the envelope."""
        return {
            "code": self.code,
            "level": self.level.value,
            "message": self.message,
            "hint": self.fix,
            "path": self.path,
            "line": None if self.path is None else self.line,
            "connection": self.connection,
        }


@dataclass(frozen=True, slots=True)
class Share:
    """How many of all have a description."""

    described: int = 0
    total: int = 0

    def __add__(self, other: Share) -> Share:
        return Share(self.described + other.described, self.total + other.total)

    @property
    def percent(self) -> float | None:
        """Percent to one decimal, rounded down, so that 100 means all; None where there is nothing."""
        return self.described * 1000 // self.total / 10 if self.total else None

    @property
    def shown(self) -> str:
        """`61.9% (13 of 21)`."""
        return "none" if self.percent is None else f"{self.percent:.1f}% ({self.described:,} of {self.total:,})"

    def to_json(self) -> dict[str, Any]:
        """Return the counts and the percentage."""
        return {"described": self.described, "total": self.total, "percent": self.percent}


KINDS: Final = ("tables", "columns", "measures")


@dataclass(frozen=True, slots=True)
class Coverage:
    """What of a connection (or of all) has a description."""

    tables: Share = Share()
    columns: Share = Share()
    measures: Share = Share()

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(*(getattr(self, kind) + getattr(other, kind) for kind in KINDS))

    @property
    def all(self) -> Share:
        """Tables, columns and measures together."""
        return self.tables + self.columns + self.measures

    def to_json(self) -> dict[str, Any]:
        """Return the shares by kind."""
        return {kind: getattr(self, kind).to_json() for kind in (*KINDS, "all")}


@dataclass(slots=True)
class Linted:
    """Everything `ktx lint` found."""

    coverage: dict[str, Coverage] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    pages: int = 0

    @property
    def total(self) -> Coverage:
        """The coverage of all connections together."""
        return sum(self.coverage.values(), Coverage())

    def counts(self) -> dict[str, int]:
        """Return how many findings there are of each level."""
        found = Counter(each.level for each in self.findings)
        return {level.value: found[level] for level in Level}

    def by_code(self) -> Mapping[str, int]:
        """Return how many findings there are of each code."""
        return dict(sorted(Counter(each.code for each in self.findings).items()))

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in the envelope."""
        return {
            "coverage": {
                "connections": {name: each.to_json() for name, each in self.coverage.items()},
                "total": self.total.to_json(),
            },
            "pages": self.pages,
            "findings": [each.to_json() for each in self.findings],
            "counts": self.counts(),
            "codes": self.by_code(),
        }

    def error(self) -> KtxError | None:
        """Return the error to end with where something is at least a warning."""
        counts = self.counts()
        bad = [plural(counts[level], level.value) for level in (Level.ERROR, Level.WARNING) if counts[level]]
        if not bad:
            return None
        codes = self.by_code()
        return KtxError(
            f"the context has {' and '.join(bad)}",
            hint=_command_for(_worst(self.findings)),
            details={"counts": counts, "codes": codes},
            code="lint_problems",
        )


def _worst(findings: Iterable[Finding]) -> Finding:
    return min(findings, key=lambda each: list(Level).index(each.level))


def _command_for(finding: Finding) -> str:
    """Return the command that lists findings like this; one that sums others up names its own."""
    if finding.fix.startswith("ktx lint "):
        return finding.fix
    return shell_words("ktx", "lint", "--select", finding.code, "--limit", "0")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `word`: the code of the check it stands for, of `ktx wiki lint` (KTX2) or `ktx sl validate` (KTX3).

    A check of the semantic layer may say another level than this usual one.
    """

    code: str
    level: Level
    says: str
    word: str | None = None


_E, _W, _I = Level.ERROR, Level.WARNING, Level.INFO

NO_TABLE_TEXT: Final = "KTX101"
NO_COLUMN_TEXT: Final = "KTX102"
NO_MEASURE_TEXT: Final = "KTX103"
NO_MEASURE: Final = "KTX104"
NO_CONTEXT: Final = "KTX105"
LOW_COVERAGE: Final = "KTX106"
PAGE_STALE: Final = "KTX230"
PAGE_SUBJECT_GONE: Final = "KTX231"
PAGE_MARKED: Final = "KTX232"
PAGE_EMPTY: Final = "KTX233"
PAGE_TWICE: Final = "KTX234"
PAGE_OTHER: Final = "KTX299"
TO_REVIEW: Final = "KTX340"
NO_CONNECTION: Final = "KTX341"
LAYER_OTHER: Final = "KTX399"

RULES: Final = (
    Rule(NO_TABLE_TEXT, _I, "A table without a description."),
    Rule(NO_COLUMN_TEXT, _I, "Columns of a table without a description."),
    Rule(NO_MEASURE_TEXT, _I, "A measure without a description."),
    Rule(NO_MEASURE, _I, "A table without any measure."),
    Rule(NO_CONTEXT, _W, "A database of `ktx.yaml` without context: nothing was scanned."),
    Rule(LOW_COVERAGE, _E, "Fewer descriptions than `--min-coverage` asks for."),
    Rule("KTX201", _E, "A reference to a page that is not there.", "dangling_page"),
    Rule("KTX202", _E, "A reference to a source that is not there.", "dangling_source"),
    Rule("KTX203", _E, "A reference to a table no source reads.", "dangling_table"),
    Rule("KTX204", _E, "A reference to a column, measure or segment its source does not have.", "dangling_entity"),
    Rule("KTX205", _E, "A reference to a connection without a semantic layer.", "dangling_connection"),
    Rule("KTX206", _E, "Front matter that cannot be read.", "front_matter"),
    Rule("KTX207", _E, "A page where no page can be.", "place"),
    Rule("KTX208", _E, "A page whose file cannot be read.", "unreadable"),
    Rule("KTX209", _E, "A page whose key is no key, or the same as another's on some file systems.", "key"),
    Rule("KTX210", _E, "A page without a summary.", "missing_summary"),
    Rule("KTX211", _E, "A field of the front matter with a value of the wrong type.", "field_type"),
    Rule("KTX212", _E, "A page or a summary that is too long.", "too_long"),
    Rule("KTX213", _W, "A sentence that speaks to agents.", "instruction"),
    Rule("KTX214", _E, "Characters that readers do not see.", "hidden_characters"),
    Rule("KTX215", _W, "A comment, which readers do not see.", "html_comment"),
    Rule("KTX216", _W, "HTML that hides something or does something.", "html"),
    Rule("KTX217", _W, "A link to a host that no source of the page names.", "unexpected_link"),
    Rule("KTX218", _W, "An image, which no agent sees.", "image"),
    Rule("KTX219", _W, "Data written into a link.", "data_uri"),
    Rule("KTX220", _E, "What looks like a secret.", "secret"),
    Rule(PAGE_STALE, _W, "What a page refers to was changed since the page was committed last."),
    Rule(PAGE_SUBJECT_GONE, _W, "What a page refers to was there when the page was committed last, and is not now."),
    Rule(PAGE_MARKED, _I, "A page that is marked as out of date."),
    Rule(PAGE_EMPTY, _W, "A page without text."),
    Rule(PAGE_TWICE, _W, "Two pages with the same text."),
    Rule(PAGE_OTHER, _E, "Anything else `ktx wiki lint` says."),
    Rule("KTX301", _E, "A manifest shard that cannot be read.", "broken_shard"),
    Rule("KTX302", _E, "A file of a source that cannot be read.", "broken_source"),
    Rule("KTX303", _E, "A file that does not name its source.", "no_name"),
    Rule("KTX304", _E, "Two definitions of one name.", "duplicate"),
    Rule("KTX305", _E, "A part of the wrong shape.", "shape"),
    Rule("KTX306", _E, "A value that cannot be there.", "value"),
    Rule("KTX307", _E, "A part that must be there and is not.", "missing"),
    Rule("KTX308", _W, "A key nothing reads.", "unknown_key"),
    Rule("KTX309", _E, "A key that cannot be in this file.", "forbidden_key"),
    Rule("KTX310", _E, "A source that is not there.", "unknown_source"),
    Rule("KTX311", _E, "A column that is not there.", "unknown_column"),
    Rule("KTX312", _E, "A name nothing has.", "unknown_name"),
    Rule("KTX313", _E, "A segment that is not there.", "unknown_segment"),
    Rule("KTX314", _W, "A join to disable that is not there.", "unknown_join"),
    Rule("KTX315", _E, "A name several things have.", "ambiguous_name"),
    Rule("KTX316", _E, "Several ways to join.", "ambiguous_path"),
    Rule("KTX317", _E, "No join to one row leads there.", "unreachable"),
    Rule("KTX318", _E, "An aggregate where none can be, or none where one must be.", "aggregate"),
    Rule("KTX319", _E, "A definition that needs itself.", "cycle"),
    Rule("KTX320", _E, "An expression that cannot be read.", "definition"),
    Rule("KTX321", _E, "A parameter that is not declared.", "parameter"),
    Rule("KTX322", _E, "A policy that needs what nobody gives.", "policy"),
    Rule("KTX323", _E, "A question in a definition that cannot be read.", "query"),
    Rule("KTX324", _E, "Rows without a key, or a time cut finer than its values are.", "grain"),
    Rule("KTX325", _E, "A definition over what must not be asked for.", "hidden"),
    Rule("KTX326", _E, "A join whose `on` cannot be read.", "join_on"),
    Rule("KTX327", _E, "A source without columns.", "no_columns"),
    Rule("KTX328", _E, "A name with a dot.", "dotted_name"),
    Rule("KTX329", _W, "A measure with the name of a column.", "shadowed_name"),
    Rule("KTX330", _W, "A source without a grain.", "no_grain"),
    Rule("KTX331", _W, "A column without a type.", "no_type"),
    Rule("KTX332", _W, "A default time that is no time.", "not_a_time"),
    Rule("KTX333", _W, "A join to one row that no key proves.", "unproven_cardinality"),
    Rule("KTX334", _W, "A join that compares a text for people with an identifier.", "display_value"),
    Rule("KTX335", _W, "Two measures that compute the same.", "equal_measures"),
    Rule("KTX336", _E, "A column the `sql` of its source does not give.", "not_projected"),
    Rule("KTX337", _W, "A source in place of one of the manifest.", "shadows_manifest"),
    Rule("KTX338", _I, "Sources that no join connects with the others.", "disconnected"),
    Rule("KTX339", _E, "A file outside the folder of every connection that may hide something.", "no_connection"),
    Rule(TO_REVIEW, _I, "Found joins that wait for a person."),
    Rule(NO_CONNECTION, _W, "A semantic layer of a connection that `ktx.yaml` does not have."),
    Rule(LAYER_OTHER, _E, "Anything else `ktx sl validate --no-data` says."),
)
"""Every rule by its code. A code keeps its meaning; new rules get new codes."""

BY_CODE: Final = {rule.code: rule for rule in RULES}
BY_WORD: Final = {(rule.code[:4], rule.word): rule for rule in RULES if rule.word is not None}

COVERAGE: Final = "KTX1"
WIKI: Final = "KTX2"
LAYER: Final = "KTX3"


def rule_of(group: str, word: str) -> Rule:
    """Return the rule a check of the wiki (`WIKI`) or the semantic layer (`LAYER`) stands under, by its own code."""
    return BY_WORD.get((group, word)) or BY_CODE[PAGE_OTHER if group == WIKI else LAYER_OTHER]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rules are wanted: codes, or what they begin with (`KTX2`); nothing selected means all."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @classmethod
    def of(cls, select: Sequence[str], ignore: Sequence[str]) -> Selection:
        """Return the selection, codes with commas between them taken apart; `UsageError` for what begins no code."""
        return cls(tuple(_codes(select, "--select")), tuple(_codes(ignore, "--ignore")))

    def __contains__(self, code: object) -> bool:
        if not isinstance(code, str):
            return False
        return (not self.select or code.startswith(self.select)) and not (self.ignore and code.startswith(self.ignore))

    def any(self, codes: Sequence[str]) -> bool:
        """Whether one of these rules is wanted."""
        return any(code in self for code in codes)


def _codes(given: Sequence[str], option: str) -> list[str]:
    found = [code.strip().upper() for each in given for code in each.split(",") if code.strip()]
    for code in found:
        if not any(known.startswith(code) for known in BY_CODE):
            near = did_you_mean(code, BY_CODE)
            hint = f"ktx lint {option} {near}" if near else f"ktx lint {option} KTX2"
            raise UsageError(f"{option}: no rule has the code `{code}`", hint=hint, details={"codes": list(BY_CODE)})
    return found
