"""Measures relationship discovery: python benchmarks/relationships.py FOLDER... [--generated COUNT]

A folder holds `data.sqlite` and `expected-links.yaml`. The declared keys are hidden (or given, wrong, as they are),
discovery runs, and what it accepted is compared with the truth, exactly. `--declared as-is`: the foreign keys the file
declares count as found, since discovery leaves them out. `wrong`: wrong keys are in the file alone, and the figures
have to be those of `hidden`. `wrong-trusted`: discovery trusts them.

Prints precision, recall and F1 of foreign and primary keys, the recall with what was put up for review, queries and
seconds; the last rows are the mean over the databases and the rates over all links together. `--report` adds strict and
confirmable figures, those of keys with guesses apart, and how the shown probabilities hold by rows of evidence.
`--robustness` adds the figures with declared keys, with wrong ones, with names that say nothing, and with a sample of
10 % of the rows. `--oracle 1.0 --oracle 0.8` compares no model with scripted ones that are right in these shares of
their answers.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.relationship_fixtures.discovering import declared_links, discover
from benchmarks.relationship_fixtures.generate import generate_corpus
from benchmarks.relationship_fixtures.oracle import Oracle
from benchmarks.relationship_fixtures.report import Measured, report
from benchmarks.relationship_fixtures.scoring import Answer, Rates, Score, score, silent_links
from benchmarks.relationship_fixtures.scrambling import INDEPENDENT
from benchmarks.relationship_fixtures.truth import TRUTH_FILE, Truth, read_truth
from benchmarks.relationship_fixtures.variants import scramble, wrong_keys
from ktx_cli.core.errors import KtxError, UsageError

SCRAMBLED, SAMPLED = "scrambled", "sampled"
SAMPLED_SHARE = 0.1
VARIANTS = {
    "primary keys declared": "given-pks",
    "wrong keys in the file": "wrong",
    "wrong keys, trusted": "wrong-trusted",
    "names that say nothing": SCRAMBLED,
    "10 % of the rows sampled": SAMPLED,
}
"""What `--robustness` compares with hidden keys: its name in the table, and the value of `--declared` or the condition.
"""

DECLARED = ("hidden", "given-pks", "wrong", "wrong-trusted", "as-is")


@dataclass(frozen=True, slots=True)
class Case:
    """One fixture with what discovery made of it."""

    name: str
    answer: Answer
    score: Score
    measured: Measured
    asked: int = 0
    """The number of columns about which an oracle was asked."""


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as made:
            folders = _folders(options, Path(made))
            cases = [run(folder, options, Path(made)) for folder in folders]
            rough = _robustness(folders, options, Path(made), cases) if options.robustness else ""
            asked = {share: [run(each, options, Path(made), share) for each in folders] for share in options.oracle}
    except KtxError as error:
        print(f"error: {error.message}", f"hint: {error.hint}", sep="\n", file=sys.stderr)
        return error.exit_code
    print(json.dumps(as_json(cases), indent=2) if options.json else as_table(cases))
    if options.report and not options.json:
        print("", *report([case.measured for case in cases]), sep="\n")
    if options.verbose and not options.json:
        for case in cases:
            print_mistakes(case)
    if rough and not options.json:
        print("", rough, sep="\n")
    if asked and not options.json:
        print("", comparison({None: cases, **asked}), sep="\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure relationship discovery on databases with known answers.")
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="a fixture, or a folder of fixtures")
    parser.add_argument("--declared", choices=DECLARED, default="hidden", help="which declared keys discovery sees")
    parser.add_argument("--exclude-unconfirmable", action="store_true", help="leave out links no row can show")
    parser.add_argument("--generated", type=int, default=0, metavar="COUNT", help="generated databases to add")
    parser.add_argument("--seed", type=int, default=1, help="the seed of generated databases and wrong keys")
    parser.add_argument("--kind", action="append", help="generate this kind alone; may be given again")
    parser.add_argument(
        "--oracle", action="append", type=float, default=[], metavar="SHARE",
        help="compare with a scripted model that is right in this share of its answers; may be given again",
    )  # fmt: skip
    parser.add_argument("--robustness", action="store_true", help="add the figures under harder and easier conditions")
    parser.add_argument("--report", action="store_true", help="add figures over all databases, and the calibration")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--verbose", action="store_true", help="name every mistake with its reason")
    return parser


def _folders(options: argparse.Namespace, made: Path) -> list[Path]:
    generated = generate_corpus(made / "generated", options.generated, options.seed, options.kind)
    named = [each for folder in options.folders if not folder.is_file() for each in _fixtures(folder)]
    folders = [*named, *(fixture.folder for fixture in generated)]
    if not folders:
        raise UsageError("nothing to measure", hint="name a folder, or add `--generated 20`")
    return folders


def _fixtures(folder: Path) -> list[Path]:
    """Return the folder when it is a fixture, else the fixtures in it; where there are none itself, for the error."""
    if (folder / TRUTH_FILE).is_file() or not folder.is_dir():
        return [folder]
    return sorted(each.parent for each in folder.glob(f"*/{TRUTH_FILE}")) or [folder]


def run(
    folder: Path, options: argparse.Namespace, made: Path, oracle: float | None = None, variant: str | None = None
) -> Case:
    """Run discovery on one fixture in the way the options ask for, and score it.

    `oracle`: the share of right answers of a scripted model. `variant`: a value of `VARIANTS` in place of `--declared`.
    """
    if variant == SCRAMBLED:
        scramble(folder, made / SCRAMBLED / folder.name, options.seed, INDEPENDENT)
        folder = made / SCRAMBLED / folder.name
    truth = read_truth(folder)
    asked = None if oracle is None else Oracle(truth, oracle)
    answer = _answer(folder, truth, options, made, asked, variant or options.declared)
    strict = score(truth, answer)
    confirmable = score(truth, answer, silent=silent_links(folder, truth))
    chosen = confirmable if options.exclude_unconfirmable else strict
    return Case(
        folder.name, answer, chosen, Measured(truth, answer, strict, confirmable), len(asked.asked) if asked else 0
    )


def _answer(
    folder: Path, truth: Truth, options: argparse.Namespace, made: Path, oracle: Oracle | None, declared: str
) -> Answer:
    if declared == "as-is":
        answer = discover(folder, hide=False, ask=oracle)
        return replace(answer, accepted=answer.accepted | declared_links(folder))
    if declared in ("wrong", "wrong-trusted"):
        wrong_keys(folder, made / "wrong" / folder.name, options.seed)
        return discover(made / "wrong" / folder.name, hide=declared == "wrong", ask=oracle)
    given = {key.table: key.columns for key in truth.primary_keys} if declared == "given-pks" else {}
    share = SAMPLED_SHARE if declared == SAMPLED else 1.0
    return discover(folder, hide=True, primary_keys=given, ask=oracle, share=share)


def _robustness(folders: list[Path], options: argparse.Namespace, made: Path, cases: list[Case]) -> str:
    """Return a table of the foreign keys under other conditions, next to those of `cases`."""
    lines = [f"{'foreign keys, all links':28} {'P':>6}{'R':>6}{'F1':>6} {'mean F1':>8}"]
    for name, variant in {options.declared: None, **VARIANTS}.items():
        found = cases if variant is None else [run(each, options, made, variant=variant) for each in folders]
        rates, mean = _sum([case.score.links for case in found]), _mean([case.score.links.f1 for case in found])
        lines.append(f"{name:28} {rates.precision:6.3f}{rates.recall:6.3f}{rates.f1:6.3f} {mean:8.3f}")
    return "\n".join(lines)


def as_table(cases: list[Case]) -> str:
    """Return the table that is printed."""
    keys = f"{'PK P':>6}{'R':>6}{'F1':>6}  {'review':>6}"
    head = f"{'':28} {'FK P':>6}{'R':>6}{'F1':>6}  {keys} {'queries':>8}{'seconds':>9}"
    rows = [_row(c.name, c.score.links, c.score.keys, c.score.review_recall, c.answer) for c in cases]
    mean = [_mean([getattr(r, rate) for r in (c.score.links for c in cases)]) for rate in ("precision", "recall", "f1")]
    mean += [_mean([getattr(r, rate) for r in (c.score.keys for c in cases)]) for rate in ("precision", "recall", "f1")]
    review = _mean([case.score.review_recall for case in cases])
    rows.append(_numbers("mean", mean, review, _total(cases)))
    links, key_rates = _sum([case.score.links for case in cases]), _sum([case.score.keys for case in cases])
    return "\n".join([head, *rows, _row("all together", links, key_rates, None, _total(cases))])


def _row(name: str, links: Rates, keys: Rates, review: float | None, answer: Answer) -> str:
    rates = [links.precision, links.recall, links.f1, keys.precision, keys.recall, keys.f1]
    return _numbers(name, rates, review, answer)


def _numbers(name: str, rates: list[float], review: float | None, answer: Answer) -> str:
    shown = [f"{rate:6.3f}" for rate in rates]
    more = "     -" if review is None else f"{review:6.3f}"
    return f"{name[:28]:28} {''.join(shown[:3])}  {''.join(shown[3:])}  {more} {answer.queries:8}{answer.seconds:9.2f}"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _sum(rates: list[Rates]) -> Rates:
    return sum(rates, Rates(0, 0, 0))


def _total(cases: list[Case]) -> Answer:
    queries, seconds = sum(case.answer.queries for case in cases), sum(case.answer.seconds for case in cases)
    return Answer(frozenset(), frozenset(), queries=queries, seconds=seconds)


def comparison(by_oracle: Mapping[float | None, list[Case]]) -> str:
    """Return a table of the foreign keys over all links without a model (None) and with each oracle."""
    head = f"{'P':>6}{'R':>6}{'F1':>6} {'mean F1':>8} {'worse':>6} {'asked':>6} {'calls':>6}"
    lines = [f"{'foreign keys, all links':28} {head}"]
    alone = {case.name: case.score.links.f1 for case in by_oracle[None]}
    for share, cases in by_oracle.items():
        name = "without a model" if share is None else f"an oracle that is {share:.0%} right"
        rates, mean = _sum([case.score.links for case in cases]), _mean([case.score.links.f1 for case in cases])
        worse = sum(case.score.links.f1 < alone[case.name] for case in cases)
        figures = f"{rates.precision:6.3f}{rates.recall:6.3f}{rates.f1:6.3f} {mean:8.3f} {worse:6}"
        asked, calls = sum(case.asked for case in cases), sum(case.answer.calls for case in cases)
        lines.append(f"{name:28} {figures} {asked:6} {calls:6}")
    return "\n".join(lines)


def as_json(cases: list[Case]) -> dict[str, Any]:
    """Return the figures and mistakes of all cases."""
    return {"databases": [_case_json(case) for case in cases]}


def _case_json(case: Case) -> dict[str, Any]:
    return {
        "name": case.name,
        "foreign_keys": _rates_json(case.score.links),
        "primary_keys": _rates_json(case.score.keys),
        "review_recall": case.score.review_recall,
        "queries": case.answer.queries,
        "seconds": round(case.answer.seconds, 3),
        "wrong_links": [str(link) for link in case.score.wrong_links],
        "missed_links": [str(link) for link in case.score.missed_links],
        "wrong_keys": [str(key) for key in case.score.wrong_keys],
        "missed_keys": [str(key) for key in case.score.missed_keys],
    }


def _rates_json(rates: Rates) -> dict[str, float]:
    return {
        "precision": rates.precision,
        "recall": rates.recall,
        "f1": rates.f1,
        "found": rates.found,
        "claimed": rates.claimed,
        "wanted": rates.wanted,
    }


def print_mistakes(case: Case) -> None:
    """Print what was wrong and what was missed, with discovery's reason where it has one."""
    reasons = dict(case.answer.reasons)
    print(f"\n{case.name}")
    for title, links in (("wrong link", case.score.wrong_links), ("missed link", case.score.missed_links)):
        for link in links:
            print(f"  {title}: {link}  [{reasons.get(link, 'never proposed')}]")
    for title, keys in (("wrong key", case.score.wrong_keys), ("missed key", case.score.missed_keys)):
        for key in keys:
            print(f"  {title}: {key}")


if __name__ == "__main__":
    sys.exit(main())
