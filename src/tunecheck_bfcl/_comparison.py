"""BFCL's scores as runs to compare: Tunecheck's verdict files, and the leaderboard's score files with result files.

The core calls `open_scores()` to open a path as a run. `LEADERBOARD_FIGURES` adds the leaderboard's figures to a
comparison of two runs.

…/<model>/[<group>/]BFCL_v4_<category>_score.json     a line of counts, then the rows that failed
…/<category>.verdicts.jsonl                            a line for every row

    {"accuracy": 0.5, "correct_count": 1, "total_count": 2}                               score file, line 1
    {"id": "simple_python_7", "valid": false, "error_type": "…", "error": ["…"]}          score file, line 2
    {"id": "simple_python_7", "valid": false, "error_type": "…", "message": "…"}          verdict file

A score file has no line for rows that passed. They are in the result file, whose path has `result` instead of `score`;
the number of rows in both must fit the counts.

`open_scores` takes a path by the first line that fits:

  a run of other rows           the run, unchanged
  a run of BFCL's rows          the run, with every row's verdict also under the pooled metric
  verdict or score files        a run with only the pooled metric
  result files alone            an error: they were not scored yet
  anything else                 None: not BFCL's

Rows that share a scenario or a function document form a cluster (`shared_scenarios`).
"""

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy
from msgspec.structs import replace

from tunecheck import ConfigurationError, DataError, MetricComparison, Run, statistics
from tunecheck.comparison import PairedValues, Part, RunPair, part_of, with_verdicts
from tunecheck.datasets import JsonLinesSource, Record
from tunecheck.plugins import JSON, EvaluatorEntry, MetricEntry, read_object
from tunecheck.results import Clusters, OpenedRun, RowSource, RunInfo
from tunecheck_bfcl._data.files import CATEGORIES, OLD_NAMES, model_folder_of, row_id, shared_part


def paired_weighted(
    base: statistics.Floats,
    new: statistics.Floats,
    parts: statistics.Codes,
    weights: Sequence[float],
    clusters: statistics.Labels | None = None,
    *,
    confidence: float = statistics.CONFIDENCE,
    seed: int = 0,
) -> statistics.Paired:
    """Return the weighted sum of the parts' means in both runs, and the difference of the sums.

    Intervals use Student's t and the standard error of stratified samples (Cochran, "Sampling Techniques", 1977,
    section 5.3). Clusters may span several parts. With clusters, the standard error comes from the sum of the rows'
    contributions in each cluster, as in `RowGroups.mean_error`. The test flips the sign of each row's contribution to
    the difference, or of each cluster's sum.

    Args:
        base: the base run's score of each row.
        new: the new run's scores of the same rows.
        parts: the number of each row's part, from 0. Each part must have rows.
        weights: the weights of the parts, in order.
        clusters: a label for every row; rows with equal labels are not independent.
        confidence: the level of the two-sided intervals, between 0 and 1.
        seed: seed for the random sign flips.
    """
    sizes = numpy.bincount(parts, minlength=len(weights))
    shares = numpy.asarray(weights)
    # The weight of each row: that of its part, shared by the part's rows.
    row_weights = (shares / sizes)[parts]

    groups = statistics.as_clusters(clusters, len(parts))

    # The test flips the signs of whole clusters, because rows of a cluster are not independent.
    change = new - base
    contributions = change * row_weights
    units = contributions if groups is None else groups.sums(contributions)
    flipped = statistics.flip_scores(units, seed)

    # The difference is estimated from the rows' changes, so its interval uses that the runs are paired.
    base_sum, new_sum, difference = (
        _estimate(values, parts, shares, sizes, groups, confidence) for values in (base, new, change)
    )
    return statistics.make_paired_scores(base_sum, new_sum, difference, flipped, ", weighted")


def _estimate(
    values: statistics.Floats,
    parts: statistics.Codes,
    weights: statistics.Floats,
    sizes: statistics.Codes,
    groups: statistics.RowGroups | None,
    confidence: float,
) -> statistics.Estimate:
    """Return the weighted sum of the parts' means over one run's values, with its confidence interval.

    `parts` has the part of each row, `sizes` the number of rows in each part, and `groups` the clusters, if any.
    Without spread, or with fewer than two rows or clusters, the estimate has no interval.

    Example: the means 0.8 and 0.6 of two parts with the weights 1/3 and 2/3 give 0.667.
    """
    means = numpy.bincount(parts, weights=values, minlength=len(sizes)) / sizes

    # Each row's distance from the mean of its own part: differences between the parts are no error.
    spread = (weights / sizes)[parts] * (values - means[parts])

    if groups is None:  # n / (n - 1) makes the variance of each part unbiased
        spread *= numpy.sqrt(sizes / numpy.maximum(sizes - 1, 1))[parts]
        units, variance = len(values), float(spread @ spread)
    else:
        # A cluster may span several parts, so its rows' contributions are added before they are squared.
        sums = groups.sums(spread)
        units = groups.count
        variance = float(sums @ sums) * units / max(units - 1, 1)

    value, error = math.fsum((weights * means).tolist()), math.sqrt(variance)  # fsum: two decimals are printed
    count = None if groups is None else units

    if units < 2 or error == 0:
        remark = "the rows show no spread"
        return statistics.Estimate(value, None, None, len(values), confidence, "none", error, count, remark)

    half = statistics.t_quantile((1 + confidence) / 2, units - 1) * error  # half the width of the interval
    return statistics.Estimate(value, value - half, value + half, len(values), confidence, "stratified t", error, count)


POOLED = "bfcl_pooled"
"""The metric over all rows with equal weights. It is not one of the leaderboard's figures."""

POOLED_DECLARED = {POOLED: EvaluatorEntry(primary=POOLED, metrics=[MetricEntry(POOLED, "binary")])}

_DERIVED = {POOLED: ("multi_turn_state", "call_check")}
"""The pooled metric with the evaluators that judge rows of BFCL. Each has its verdicts in `outputs.<name>.<name>_…`."""

_POOLED_KEY = f"outputs.{POOLED}.{POOLED}"
_WORDS = {True: "pass", False: "fail", None: "not_applicable"}

# BFCL_v4_simple_python_score.json: the category simple_python.
_SCORE = re.compile(r"BFCL_v[34]_(?P<category>.+)_score\.json")

_VERDICTS = ".verdicts.jsonl"

_DEEPEST = 5
"""The levels below a folder that are searched for scores, as in runs/<run>/bfcl_score/<model>/<group>/<file>."""


def open_scores(path: Path, opened: OpenedRun | None) -> OpenedRun | None:
    """Open score files as a run, or add the pooled verdicts to an opened run of BFCL's rows.

    Returns None if `opened` is None and the path has no scores. A run of other rows is returned unchanged.

    Raises:
        ConfigurationError: there are only result files, which were not scored yet.
        DataError: the scores are damaged or those of several models.
    """
    if opened is not None:
        if not (opened.dataset or "").startswith("bfcl:"):
            return opened
        declared = {**(opened.declared or {}), **POOLED_DECLARED}
        pooled = PooledRows(opened.rows)
        return replace(opened, rows=pooled, declared=declared, primary=POOLED, derived=_DERIVED)

    scores = find_scores(path)
    if scores is not None:
        return _open_scores(path, scores)
    if path.is_dir() and any(file.name.endswith("_result.json") for file in _files_below(path)):
        raise ConfigurationError(f"{path} has no scores; run `tunecheck bfcl score {path} --out DIR` and compare DIR")
    return None


def _open_scores(path: Path, scores: "BfclScores") -> OpenedRun:
    """Return score files as a run, named after their folder.

    They count as simulated if they belong to a run with simulated answers, found in a folder above them.
    """
    # Folders with these names are in every run, so the scores are named after the folder above.
    is_named = path.is_dir() and path.name not in ("score", "bfcl_score", "result")
    name = path.name if is_named else path.parent.name

    # A run's scores are in RUN/bfcl_score/MODEL/GROUP, so run.json is at most three folders above.
    folders = (path.absolute(), *path.absolute().parents[:3])
    run = next((folder for folder in folders if (folder / "run.json").is_file()), None)
    simulated = run is not None and Run(run).manifest().simulated

    return OpenedRun(
        RunInfo(name or "scores", "bfcl", str(path), rows=0, simulated=simulated),
        scores,
        POOLED_DECLARED,
        primary=POOLED,
        groups=("category",),
        dataset="bfcl:scores",
        derived=_DERIVED,
    )


def shared_scenarios(run: OpenedRun, row_ids: list[str]) -> Clusters | None:
    """Cluster BFCL's rows by the scenario or function document that they share. Other runs get no clusters (None)."""
    if not (run.dataset or "").startswith("bfcl:"):
        return None
    return Clusters("scenario and function document", "declared", [*map(shared_part, row_ids)])


class BfclScores(msgspec.Struct, frozen=True):
    """The score files of one model by category."""

    files: Mapping[str, Path]

    def records(self) -> Iterator[dict[str, JSON]]:
        """Yield the rows of all categories, each with its answer, and its verdict and reason under one pooled metric.

        A row without a verdict is `not_applicable`.

        Raises:
            DataError: a file is damaged, or a score file and its result file do not belong together.
        """
        for category, path in self.files.items():
            # A verdict file has all rows. A score file has only failed rows and needs its result file.
            read_rows = _verdict_rows if path.name.endswith(_VERDICTS) else _scored_rows
            for name, (valid, reason, answer) in read_rows(path, category).items():
                yield {
                    "row_id": name,
                    "row_fingerprint": "",
                    "inputs.category": category,
                    "outputs.result": answer,
                    f"{_POOLED_KEY}_result": _WORDS[valid],
                    f"{_POOLED_KEY}_reason": reason,
                }


class PooledRows(msgspec.Struct, frozen=True):
    """The rows of a run of `bfcl run`. Each row's verdict is also given under the pooled metric."""

    rows: RowSource

    def records(self) -> Iterator[dict[str, JSON]]:
        """Yield the run's rows with the verdict of either BFCL evaluator copied to the pooled metric."""
        prefixes = [f"outputs.{name}.{name}" for name in _DERIVED[POOLED]]
        for row in self.rows.records():
            # A row is a question or a conversation, so at most one of the two evaluators has a verdict on it.
            source = next((prefix for prefix in prefixes if row.get(f"{prefix}_result") in ("pass", "fail")), None)
            # Without a verdict, `source` is None, and nothing is copied.
            endings = ("_result", "_reason", "_properties")
            pooled = {f"{_POOLED_KEY}{end}": row[f"{source}{end}"] for end in endings if f"{source}{end}" in row}
            yield {**row, **pooled} if pooled else row


Rows = dict[str, tuple[bool | None, str | None, JSON]]
"""By row id: whether the row passed (None: not scored), the reason if not, and the answer if a file contains it."""


def find_scores(path: Path) -> BfclScores | None:
    """Return the scores in a file or folder, or None if there are none.

    Raises:
        DataError: the scores are those of several models, or a category has two score files.
        ConfigurationError: the `summary.json` beside verdicts cannot be read, or a later version wrote it.
    """
    paths = [path] if path.is_file() else _files_below(path)
    categories = {file: _category_of_file(file) for file in paths}
    scored = {file: category for file, category in categories.items() if category is not None}
    if not scored:
        return None

    # Runs are compared model by model; files of several models would mix them.
    models = sorted({str(model_folder_of(file)) for file in scored})
    if len(models) > 1:
        raise DataError(f"{path} has scores of {len(models)} models or runs; give one folder, such as {models[0]}")

    files: dict[str, Path] = {}
    for file, category in scored.items():
        if category in files:
            raise DataError(f"{files[category]} and {file} both have scores of {category}; remove one file")
        files[category] = file

        summary = file.with_name("summary.json")
        if file.name.endswith(_VERDICTS) and summary.is_file():
            read_object(summary)  # checks the format version of the verdicts

    # Known categories in their usual order, then others by name.
    order = [name for name in CATEGORIES if name in files]
    unknown = sorted(files.keys() - set(order))
    return BfclScores({name: files[name] for name in (*order, *unknown)})


def _files_below(folder: Path) -> list[Path]:
    """Return the files with `.json` in their names, at most `_DEEPEST` levels below a folder.

    The limit keeps a wrong folder, such as `/`, from being searched completely. Hidden folders are skipped.
    """
    paths: list[Path] = []
    for parent, folders, names in os.walk(folder):
        depth = len(Path(parent).relative_to(folder).parts)
        # os.walk visits only the folders that stay in this list.
        folders[:] = sorted(name for name in folders if depth < _DEEPEST and not name.startswith("."))
        paths += [Path(parent, name) for name in names if ".json" in name]
    return sorted(path for path in paths if path.is_file())  # reading a pipe or a device would never end


def _category_of_file(path: Path) -> str | None:
    """Return the category in the name of a verdict or score file, or None for another file."""
    if path.name.endswith(_VERDICTS):
        return path.name.removesuffix(_VERDICTS) or None
    match = _SCORE.fullmatch(path.name)
    return None if match is None else OLD_NAMES.get(match["category"], match["category"])


def _verdict_rows(path: Path, category: str) -> Rows:
    """Return the verdicts of a verdict file by row id. Such a file contains no answers.

    Raises:
        DataError: a line is not a verdict.
    """
    rows: Rows = {}
    for name, value in _unique_records(path, JsonLinesSource(path).records(), category):
        valid = value.get("valid")
        if not (valid is None or isinstance(valid, bool)):
            raise DataError(f"{path}: `valid` of row {name[:100]!r} must be true, false or null; repeat `bfcl score`")
        reason = None if valid else _reason(value.get("error_type"), value.get("message"))
        rows[name] = (valid, reason, None)
    return rows


def _scored_rows(path: Path, category: str) -> Rows:
    """Return all rows of a category: failed rows from its score file, the others from its result file.

    Raises:
        DataError: a file is damaged, or the two files do not belong together.
    """
    lines = JsonLinesSource(path).records()
    # `lines` is an iterator: after the line of counts, it goes on with the failed rows.
    counts: Record = next((value for _, value in lines), {})
    total, correct = counts.get("total_count"), counts.get("correct_count")
    if not isinstance(total, int) or not isinstance(correct, int):
        raise DataError(f"{path}, line 1: `total_count` and `correct_count` must be integers; repeat `bfcl evaluate`")

    reasons: dict[str, str | None] = {}
    for name, value in _unique_records(path, lines, category):
        # Single questions have a list of messages and the type beside it; conversations have an object with both.
        error = value.get("error")
        details = error if isinstance(error, dict) else {"error_message": error}
        kind = value.get("error_type") or details.get("error_type")
        reasons[name] = _reason(kind, details.get("error_message"))

    # A file that was cut off would make failed rows count as passed.
    if len(reasons) != (counted := total - correct):
        raise DataError(f"{path} counts {counted} failed rows in line 1 but has {len(reasons)}; repeat `bfcl evaluate`")

    answers = _answers_by_id(path, category)
    unknown = sorted(reasons.keys() - answers.keys())
    if unknown or len(answers) != total:
        lacks = f"lacks the row {unknown[0]!r} of" if unknown else f"has {len(answers)} rows, not the {total} of"
        raise DataError(f"{_result_file(path)} {lacks} {path}; repeat `bfcl evaluate`")

    return {name: (name not in reasons, reasons.get(name), answer) for name, answer in answers.items()}


def _answers_by_id(path: Path, category: str) -> dict[str, JSON]:
    """Return the answers from the result file that belongs to a score file, by row id.

    Raises:
        DataError: the result file is missing, or a row has no id.
    """
    results = _result_file(path)
    if not results.is_file():
        raise DataError(f"{path} lists only failed rows; put the result file, which has all rows, at {results}")
    lines = JsonLinesSource(results).records()
    return {name: value.get("result") for name, value in _unique_records(results, lines, category)}


def _unique_records(path: Path, lines: Iterable[tuple[int, Record]], category: str) -> Iterator[tuple[str, Record]]:
    """Yield the content of each numbered line of a file with its row's id; a second row of an id is `<id> (2)`.

    Raises:
        DataError: a line has no id.
    """
    counts: Counter[str] = Counter()
    for number, value in lines:
        name = value.get("id")
        if not isinstance(name, str):
            raise DataError(f"{path}, line {number}: `id` must be text, not {name!r:.60}; correct the line")
        name = row_id(name, category)
        counts[name] += 1
        unique_id = name if counts[name] == 1 else f"{name} ({counts[name]})"
        yield unique_id, value


def _result_file(path: Path) -> Path:
    """Return the path of the result file for a score file: the same path, but below `result`.

    `score/m/live/BFCL_v4_live_simple_score.json` gives `result/m/live/BFCL_v4_live_simple_result.json`. If several
    folders are named `score`, the innermost counts.
    """
    name = path.name.removesuffix("_score.json") + "_result.json"
    folders = list(path.absolute().parts[:-1])
    if "score" in folders:
        last = len(folders) - 1 - folders[::-1].index("score")  # the index of the innermost one
        folders[last] = "result"

    return Path(*folders, name)


def _reason(kind: JSON, message: JSON) -> str | None:
    """Return an error type and message (a text or a list of texts) as `type: message`, or None without both."""
    texts = message if isinstance(message, list) else [message]
    joined = "; ".join(text for text in texts if isinstance(text, str))
    return ": ".join(part for part in (kind, joined) if isinstance(part, str) and part) or None


_CATEGORY = "category"


class LeaderboardFigures:
    """BFCL's own figures for comparisons, as weighted means of categories for each version of the leaderboard."""

    def of_pair(self, pair: RunPair, metric: MetricComparison) -> Iterator[Part]:
        """Yield the leaderboard's figures of both runs, over the rows on which both have a verdict.

        Only the pooled metric has these figures.
        """
        if metric.evaluator != POOLED:
            return
        from tunecheck_bfcl._summary import figure_weights

        sides = pair.sides(metric.key)
        categories = [str(label) for label in pair.labels(_CATEGORY)]
        names, counts = numpy.unique(numpy.array(categories)[sides.both], return_counts=True)

        # Weights need the number of compared rows in each category: live categories are pooled by rows.
        weights_by_version = figure_weights(dict(zip(names.tolist(), counts.tolist(), strict=True)))

        for version, figures in weights_by_version.items():
            title = f"BFCL {version.upper()}, weighted as on the leaderboard"
            scores = {name: _weighted_scores(pair, sides, categories, weights) for name, weights in figures.items()}
            parts = [part_of(version, name, score, title) for name, score in scores.items()]
            yield from with_verdicts(parts, higher_is_better=True)


def _weighted_scores(
    pair: RunPair, sides: PairedValues, categories: list[str], weights: Mapping[str, Fraction]
) -> statistics.Paired:
    """Return both runs' weighted mean over the categories in `weights`, with the difference."""
    part_numbers = {category: number for number, category in enumerate(weights)}
    rows = sides.both & numpy.array([category in part_numbers for category in categories])
    parts = numpy.array([part_numbers[category] for category, is_used in zip(categories, rows, strict=True) if is_used])

    return paired_weighted(
        sides.base[rows],
        sides.new[rows],
        parts,
        [float(weight) for weight in weights.values()],
        sides.labels_of(rows),
        confidence=pair.settings.confidence,
        seed=pair.settings.seed,
    )


LEADERBOARD_FIGURES = LeaderboardFigures()
