"""Trains the ranker of relationships on generated databases alone, and prints how well its probabilities hold.

    pip install scikit-learn
    python benchmarks/train_ranker.py --count 500 --output ktx_cli/scan/relationships/ranker.json

Boosted trees with monotonic constraints: a first pass over each pair of columns, a second one that also knows the first
one's scores of the pair's neighbours, and one for pairs without rows. The second pass and the calibration are learned
from scores of databases that the trees did not see (five folds by database); the calibration is that of each column's
best pair.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.relationship_fixtures.examples import Example, Row, examples_of
from benchmarks.relationship_fixtures.generate import CORPUS_WEIGHTS
from benchmarks.relationship_fixtures.report import PROBABLE, calibration_error
from ktx_cli.scan.relationships.ranker import (
    FEATURES,
    SECOND_FEATURES,
    DatabaseSummary,
    NameEvidence,
    Ranker,
    neighbour_features,
    read_pass,
    without_rows,
    worth_rescoring,
)

RISING = {"name_table", "name_key", "name_meaning", "clear_name", "coverage", "span", "chance", "parent_first"}
RISING |= {"odds", "margin", "namesakes_mean", "namesakes_best", "last_word_share", "first_word_share"}
FALLING = {
    "name_best_elsewhere",
    "name_rank",
    "violations",
    "low_skew",
    "rivals",
    "coverage_rank",
    "measure_word",
    "flag_word",
    "tables_alike",
    "meaning_rank",
    "rank",
}
FOLDS = 5
MORE = {"role_named": 2.5, "tiny": 2.5, "few_rows": 5.0, "application_few_rows": 4.0}
"""Kinds of which the training set has more than a corpus."""
TREES = {"max_iter": 90, "learning_rate": 0.13, "max_depth": 5, "min_samples_leaf": 40, "l2_regularization": 5.0}
ROWLESS_TREES = {**TREES, "max_iter": 30}

FEW = (2, 8, 30)
"""The largest numbers of distinct values of the columns that are calibrated apart."""

FEWEST_CALIBRATED = 150
"""Fewer columns are calibrated together with those of the same names and any number of values."""

Steps = Sequence[tuple[float, float]]


@dataclasses.dataclass(frozen=True)
class Winner:
    """A column's best pair: the raw probability, whether it is a reference, and its features."""

    raw: float
    label: int
    features: list[float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--corpus", type=Path, help="keep the generated databases here, and use those that are there")
    options = parser.parse_args()
    kinds = _kinds(options.count)
    seeds = range(options.seed, options.seed + len(kinds))
    with ProcessPoolExecutor(options.processes) as pool:
        pairs = pool.map(examples_of, kinds, seeds, [options.corpus] * len(kinds), chunksize=4)
        examples = [pair for pair in pairs if pair[0].rows]
    document = learn([full for full, _ in examples], [emptied for _, emptied in examples])
    document["learned_from"] |= {"databases": len(examples), "seed": options.seed}
    options.output.write_text(json.dumps(document, separators=(",", ":")) + "\n")
    print(document["learned_from"])
    for group in document["reliability"]:
        print(f"columns with {group['least']} to {group['most'] or 'any'} values: error {group['error']:.3f}")
        for low, high, count, mean, true in group["bins"]:
            print(f"  said {low:.2f}-{high:.2f}: {count:6,} winners, mean {mean:.3f}, true {true:.3f}")


def _kinds(count: int) -> list[str]:
    weights = CORPUS_WEIGHTS | MORE
    total = sum(weights.values())
    kinds = [kind for kind, weight in weights.items() for _ in range(round(count * weight / total))]
    return kinds or ["general"]


def learn(examples: Sequence[Example], emptied: Sequence[Example]) -> dict[str, Any]:
    """Return the document of a ranker trained on examples, and on the same ones with tables without rows."""
    rowless_examples = [_rowless_example(example) for example in emptied]
    rowless = _crosswise([example.rows for example in rowless_examples], ROWLESS_TREES, FEATURES)
    first = _crosswise([[row for row in example.rows if not row.empty] for example in examples], TREES, FEATURES)
    rescored = [_rescored(*each) for each in zip(examples, first.of, rowless.of, strict=True)]
    second = _crosswise([example.rows for example in rescored], TREES, SECOND_FEATURES)
    winners, rows = _winners(rescored, second), [row for example in examples for row in example.rows if row.scored]
    calibrated = {**second.document, **_calibrations(winners, second.of[0])}
    return {
        **first.document,
        "second": calibrated,
        "blind": {**rowless.document, **_calibrations(_winners(rowless_examples, rowless), rowless.of[0])},
        "calibrations": [],
        "reliability": _reliabilities(winners, read_pass(calibrated, SECOND_FEATURES)),
        "learned_from": {"pairs": len(rows), "references": sum(row.label for row in rows)},
    }


def _rowless_example(example: Example) -> Example:
    """Return the pairs without rows, with the features that need none."""
    places = [at for at, row in enumerate(example.rows) if row.empty]
    rows = [dataclasses.replace(example.rows[at], features=without_rows(example.rows[at].features)) for at in places]
    return Example(example.name, rows, _part(example.summary, places))


def _rescored(example: Example, first: Ranker, rowless: Ranker) -> Example:
    """Return the pairs that the second pass scores, with its features."""
    summary, rows = example.summary, example.rows
    log_odds = [
        rowless.log_odds(without_rows(row.features)) if row.empty else first.log_odds(row.features) for row in rows
    ]
    places = [at for at in worth_rescoring(summary, log_odds) if not rows[at].empty]
    kept = [
        dataclasses.replace(rows[at], features=[*neighbours, *rows[at].features])
        for at, neighbours in zip(places, neighbour_features(summary, log_odds, places), strict=True)
    ]
    return Example(example.name, kept, _part(summary, places))


def _part(summary: DatabaseSummary, places: Sequence[int]) -> DatabaseSummary:
    return DatabaseSummary(summary.columns, [summary.candidates[at] for at in places])


@dataclasses.dataclass(frozen=True)
class Learned:
    """Trees learned from all examples, and for each example those that did not see it."""

    document: dict[str, Any]
    of: list[Ranker]


def _crosswise(examples: Sequence[list[Row]], trees: dict[str, Any], names: Sequence[str]) -> Learned:
    folds = [
        _fit([rows for number, rows in enumerate(examples) if number % FOLDS != fold], trees, names)
        for fold in range(FOLDS)
    ]
    rankers = [read_pass({**document, "calibrations": []}, names) for document in folds]
    return Learned(_fit(examples, trees, names), [rankers[number % FOLDS] for number in range(len(examples))])


def _fit(examples: Sequence[list[Row]], trees: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    signs = [1 if name in RISING else -1 if name in FALLING else 0 for name in names]
    model = HistGradientBoostingClassifier(**trees, monotonic_cst=signs, early_stopping=False, random_state=7)
    kept = [[row for row in rows if row.scored] for rows in examples]
    weights = [60.0 / (60.0 + len(rows)) for rows in kept for _ in rows]
    rows = [row for each in kept for row in each]
    model.fit([row.features for row in rows], [row.label for row in rows], sample_weight=weights)
    nodes = [[_node(node) for node in predictor[0].nodes] for predictor in model._predictors]
    return {"features": list(names), "base": round(float(model._baseline_prediction[0][0]), 6), "trees": nodes}


def _node(node: Any) -> list[float]:
    if node["is_leaf"]:
        return [-1, round(float(node["value"]), 6), 0, 0]
    return [int(node["feature_idx"]), float(node["num_threshold"]), int(node["left"]), int(node["right"])]


def _winners(examples: Iterable[Example], learned: Learned) -> list[Winner]:
    found: list[Winner] = []
    for example, ranker in zip(examples, learned.of, strict=True):
        best: dict[int, Winner] = {}
        for row, candidate in zip(example.rows, example.summary.candidates, strict=True):
            if row.scored:
                scored = Winner(ranker.probability(row.features), row.label, row.features)
                known = best.get(candidate.child)
                if known is None or (scored.raw, scored.label) > (known.raw, known.label):
                    best[candidate.child] = scored
        found += best.values()
    return found


def _calibrations(winners: Sequence[Winner], ranker: Ranker) -> dict[str, Any]:
    """Return the calibrations by the number of values and by what the names say. Small groups join the next larger."""
    found = []
    for evidence in NameEvidence:
        known = [winner for winner in winners if ranker.group(winner.features)[1] is evidence]
        for low, most in zip((-1, *FEW), (*FEW, None), strict=True):
            group = _with_values(known, ranker, low + 1, most)
            group = group if len(group) >= FEWEST_CALIBRATED else known
            group = group if len(group) >= FEWEST_CALIBRATED else winners
            found.append((most, str(evidence), _calibration(group)))
    return {"calibrations": found}


def _with_values(winners: Iterable[Winner], ranker: Ranker, least: int, most: int | None) -> list[Winner]:
    counted = ((winner, ranker.group(winner.features)[0]) for winner in winners)
    return [winner for winner, values in counted if least <= values and (most is None or values <= most)]


def _calibration(winners: Sequence[Winner]) -> list[tuple[float, float]]:
    """Return the isotonic steps from raw to true probability, thinned."""
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=0.002, y_max=0.998, out_of_bounds="clip")
    model.fit([winner.raw for winner in winners], [winner.label for winner in winners])
    grid = [0.0, *(number / 40 for number in range(1, 40)), 0.985, 0.99, 0.995, 0.998, 1.0]
    fitted = [float(each) for each in model.predict(grid)]
    smooth = [sum(fitted[max(0, at - 1) : at + 2]) / len(fitted[max(0, at - 1) : at + 2]) for at in range(len(fitted))]
    return [(point, round(value, 4)) for point, value in zip(grid, smooth, strict=True)]


def _reliabilities(winners: Sequence[Winner], ranker: Ranker) -> list[dict[str, Any]]:
    """Return how the calibrated probabilities hold, for all columns and by their numbers of distinct values."""
    groups = [(0, None), *((low + 1, most) for low, most in zip((-1, *FEW), (*FEW, None), strict=True))]
    found = []
    for least, most in groups:
        chosen = _with_values(winners, ranker, least, most)
        said = [(ranker.calibrate(winner.raw, winner.features), winner.label) for winner in chosen]
        found.append(
            {
                "least": least,
                "most": most,
                "error": round(calibration_error((p, bool(label)) for p, label in said if p >= PROBABLE), 4),
                "bins": _bins(said),
            }
        )
    return found


def _bins(said: Sequence[tuple[float, int]]) -> list[tuple[float, ...]]:
    """Return (from, to, count, mean said, share true) of calibrated probabilities."""
    edges = [0.0, 0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 0.95, 0.99, 1.01]
    rows = []
    for low, high in pairwise(edges):
        group = [each for each in said if low <= each[0] < high]
        if group:
            mean, true = (sum(each[at] for each in group) / len(group) for at in (0, 1))
            rows.append((low, min(high, 1.0), len(group), round(mean, 4), round(true, 4)))
    return rows


if __name__ == "__main__":
    main()
