"""`tunecheck judge calibrate`: measure agreement between an evaluator, such as an LLM judge, and human labels."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._messages import clean, command_line, plural
from tunecheck._trust import Trust
from tunecheck.cli._console import check_output, print_json, print_path, write_output
from tunecheck.cli._options import DONE, FAILED, SCORING, SHOWING, Invocation, command, flag, option
from tunecheck.cli._running import begin, run_arguments, run_errors
from tunecheck.cli._shared_options import EvaluatorOptions, ResumableOptions
from tunecheck.pipeline._costs import cost_text
from tunecheck.runs._store import dumps_readably
from tunecheck.views import Cell, Part, Sentence, Table, Text, View, Words, console, print_view

if TYPE_CHECKING:
    from tunecheck.evaluation._calibration import Calibration, LabelKind
    from tunecheck.statistics._agreement import Kappa
    from tunecheck.statistics._results import Estimate, Proportion

_LABELS = "Labels"


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions(EvaluatorOptions, ResumableOptions):
    command: ClassVar[str] = "judge calibrate"
    anew: ClassVar[str] = "without --resume"

    labels: str | None = option("Rows with people's labels (.jsonl .json .csv .parquet).", "FILE", _LABELS)
    label_column: str | None = option(
        "The column of the labels; by default label. Rows without one are left out.", "COLUMN", _LABELS
    )
    label_kind: str | None = option(
        "pass_fail (pass, true, yes, 1 …) or score (numbers, compared with the threshold); default: guessed "
        "from the labels.",
        "KIND",
        _LABELS,
    )
    label_threshold: float | None = option(
        "The lowest label that counts as passed; default: the evaluator's threshold.", "N", _LABELS
    )
    limit: int | None = option("Use only the first N rows.", "N", _LABELS, least=1)
    evaluator: str | None = option("A name from `tunecheck plugins`.", "NAME", SCORING)
    metric: str | None = option(
        "Metric to compare with the labels; default: the evaluator's main one.", "METRIC", SCORING
    )
    save: bool = flag(
        "Keep verdicts and labels in judges/ of the results folder. They correct this judge's pass rates in "
        "all runs of that folder.",
        _LABELS,
        recorded=False,
    )
    out: str | None = option(
        "Write the report as JSON, with all rows that differ.", "FILE", SHOWING, recorded=False, acts="writes"
    )


@command(CalibrateOptions)
def calibrate(options: CalibrateOptions, invocation: Invocation) -> int:
    """Run an evaluator on rows with people's labels, and measure its agreement with them.

    Shows accuracy, Cohen's kappa, the kinds of mistakes and the rows that differ. --resume finishes an interrupted run.

    Exit codes:
    0 done
    1 the run failed or was interrupted, or no row could be compared
    2 wrong use or configuration
    """
    options, trust = begin(options, invocation)
    if options.labels is None or options.evaluator is None:
        missing = "labels: give --labels FILE" if options.labels is None else "evaluator: give --evaluator NAME"
        raise ConfigurationError(f"no {missing}, or --resume RUN")
    check_output("--out", options.out)
    calibration = _calibrate(options, options.labels, options.evaluator, trust)
    invocation.finished = str(calibration.run_dir)
    _report(calibration, options)
    if calibration.compared == 0:
        print("error: no row with a label got a verdict, so there is nothing to compare", file=sys.stderr)
        return FAILED
    return DONE


def _calibrate(options: CalibrateOptions, labels: str, name: str, trust: Trust) -> Calibration:
    """Run the evaluator over the labelled rows and return its agreement with the labels.

    Raises:
        ConfigurationError: an option does not fit the evaluator or the data.
    """
    from tunecheck.cli._evaluate.evaluator_choice import asks_models, mapping_layers
    from tunecheck.cli._evaluate.job import chosen_evaluators
    from tunecheck.evaluation._calibration import calibrate as run

    made = chosen_evaluators(options, [name], options.set or {}, trust, trust)[name]
    if options.judge is not None and not asks_models(made):
        raise ConfigurationError(f"--judge: {name!r} calls no model; leave --judge out")
    layers = mapping_layers(options.mapping or {}, [name])
    if "target" in layers:
        raise ConfigurationError(
            "--mapping target.…: this command calls no target; map the labelled rows' columns with ${data.…}"
        )
    return run(
        labels=labels,
        evaluator=made,
        name=name,
        label_column=options.label_column or "label",
        label_kind=cast("LabelKind | None", options.label_kind),
        label_threshold=options.label_threshold,
        metric=options.metric,
        save=options.save,
        column_mapping={**layers.get("default", {}), **layers.get(name, {})},
        evaluation_name=options.name,
        limit=options.limit,
        **run_arguments(options, "calibrate", max_cost=options.max_cost, trust=trust),
    )


def _report(calibration: Calibration, options: CalibrateOptions) -> None:
    """Write and print a calibration as its options say: as a file, as JSON, as its folder, or as a page."""
    whole = calibration.as_json()
    if options.out is not None:
        write_output(options.out, dumps_readably(whole))
    if options.json:
        print_json(whole)
    elif options.quiet:
        print_path(calibration.run_dir)
        if calibration.simulated:
            print(_SIMULATED, file=sys.stderr)
    else:
        print_view(_view(calibration, options.out), console(sys.stdout))


_SIMULATED = "SIMULATED verdicts: no model judged"

_MOST_ROWS = 3
_NOTHING = "–"


def _view(calibration: Calibration, out: str | None) -> View:
    """Return the page of a calibration: sentences, figures, disagreements; `out` is the file that has all of them."""
    parts: list[Part] = [Text([*_sentences(calibration)]), _figures(calibration)]
    parts += [_confusion(calibration)] if calibration.compared else []
    parts += [_differences(calibration, out)] if calibration.differences else []
    spent = [cost_text(each) for each in calibration.usage.values() if isinstance(each, dict)]
    cost = "".join(f" · {each}" for each in spent if each)
    kept = "" if calibration.saved is None else f"; corrects this judge's pass rates: {clean(calibration.saved, 500)}"
    parts.append(Text([f"files in {clean(calibration.run_dir, 500)}{cost}{kept}"]))
    return View(f"{calibration.evaluator} against labels", parts, [clean(each) for each in calibration.notes])


def _sentences(calibration: Calibration) -> Iterator[Sentence]:
    """Yield the agreement with people; the errors, else the main disagreement with advice; and the next command."""
    share, run, errors = calibration.accuracy, calibration.run_dir.name, calibration.errors
    metric = f" ({calibration.metric})" if calibration.metric not in (None, calibration.evaluator) else ""
    kappa = "" if calibration.kappa.value is None else f", Cohen's kappa {calibration.kappa.value:.2f}"
    agreed = f"agrees with people on {share.hits:,} of {plural(share.of, 'row')} ({_share(share)}{kappa})"
    simulated = f"{_SIMULATED}. " if calibration.simulated else ""
    yield Words(f"{simulated}{clean(calibration.evaluator, 60)}{clean(metric, 60)} {agreed}.", "strong")
    kinds = Counter((each.label_class, each.verdict) for each in calibration.differences)
    if errors:
        yield f"{plural(errors, 'row')} ended in an error: {next(run_errors(calibration.run_dir, 'row'), '')}."
    elif kinds:
        (kind, count) = kinds.most_common(1)[0]
        example = next(each.row_id for each in calibration.differences if (each.label_class, each.verdict) == kind)
        words = f"label {clean(kind[0], 30)} but verdict {clean(kind[1], 30)}"
        of = f"{count:,} of {plural(kinds.total(), 'disagreement')}, e.g. {clean(example, 60)}"
        yield f"Main disagreement: {words}, {of}. Say in the prompt how to judge such rows, or change the threshold."
    else:
        yield "No row differs."
    arguments, aim = f"report {run}", "look at every row"
    if errors:
        arguments, aim = f"judge calibrate --resume {run}", "judge the rows with an error again"
    elif calibration.saved is None and calibration.usage:  # only a judge uses a model, and only a judge can be saved
        arguments, aim = f"judge calibrate --resume {run} --save", "correct this judge's pass rates by these labels"
    yield f"Next, {aim}:  {command_line(['tunecheck', *arguments.split(' ')])}"


def _figures(calibration: Calibration) -> Table:
    """Return the table of figures: rows compared, accuracy, kappa, precision and recall of the verdict fail, scores."""
    counts = (
        (calibration.unlabelled, "without a label"),
        (calibration.not_applicable, "not applicable"),
        (calibration.errors, "with an error"),
    )
    left = [f"{count:,} {words}" for count, words in counts if count]
    of = f"of {plural(calibration.rows, 'row')}" + (f"; left out: {', '.join(left)}" if left else "")
    of += f"; {calibration.confidence:.0%} intervals"
    rows: list[tuple[Cell, ...]] = [
        ("compared", f"{calibration.compared:,}", of),
        (Words("accuracy", "strong"), _share(calibration.accuracy), _interval(calibration.accuracy)),
        (Words("Cohen's kappa", "strong"), *_decimal(calibration.kappa)),
        ("precision of fail", _share(calibration.precision), _interval(calibration.precision)),
        ("recall of fail", _share(calibration.recall), _interval(calibration.recall)),
        *_score_figures(calibration),
    ]
    return Table(("", "", ""), rows, "lrl")


def _score_figures(calibration: Calibration) -> Iterator[tuple[str, str, str]]:
    """Yield rows of the table: how well scores agree with numeric labels, and the best threshold; each if known."""
    scores, fitted = calibration.scores, calibration.threshold
    if scores is not None:
        yield "weighted kappa", *_decimal(scores.weighted_kappa)
        yield "correlation", *_decimal(scores.correlation)
        value, remarks = _decimal(scores.mean_error)
        size = "" if scores.mean_absolute_error is None else f"; {scores.mean_absolute_error:.2f} absolute"
        yield "mean error", value, f"{remarks}, score minus label{size}"
    if fitted is not None:
        reached = f"{_share(fitted.accuracy)} of held-out rows"
        yield "best threshold", f"{fitted.threshold:g}", f"right on {reached}, {_interval(fitted.accuracy)}"


def _decimal(figure: Kappa | Estimate) -> tuple[str, str]:
    """Return a value as text, and its interval with a remark as text; a dash if there is no value."""
    interval = "" if figure.low is None or figure.high is None else f"{figure.low:.2f} to {figure.high:.2f}"
    value = _NOTHING if figure.value is None else f"{figure.value:.2f}"
    return value, "; ".join(part for part in (interval, clean(figure.remark or "", 200)) if part)


def _share(share: Proportion) -> str:
    return _NOTHING if share.value is None else f"{share.value:.1%}"


def _interval(share: Proportion) -> str:
    """Return a share's interval and its counts as text; "no such row" if it has none."""
    if share.low is None or share.high is None:
        return "no such row"
    return f"{share.low:.1%} to {share.high:.1%}; {share.hits:,} of {share.of:,}"


def _confusion(calibration: Calibration) -> Table:
    """Return the table that counts rows by label and verdict."""
    rows: list[tuple[Cell, ...]] = [
        (Words(f"label {label}", "strong"), *(f"{count:,}" for count in verdicts.values()))
        for label, verdicts in calibration.confusion.items()
    ]
    return Table(("", *(f"verdict {name}" for name in calibration.confusion)), rows)


def _differences(calibration: Calibration, out: str | None) -> Table:
    """Return a table of the first rows with another verdict than label; `out` is the file that has all."""
    rows = [
        (
            Words(clean(each.row_id, 40), foreign=True),
            _with(each.label_class, each.label),
            _with(each.verdict, each.score),
            Words(clean(each.reason or "", 200), "dim", foreign=True),
        )
        for each in calibration.differences[:_MOST_ROWS]
    ]
    more = len(calibration.differences) - _MOST_ROWS
    where = f"in {clean(out, 200)}" if out is not None else "with --out FILE"
    below = f"and {plural(more, 'row')} more, {where}" if more > 0 else ""
    return Table(("row", "label", "verdict", "reason"), rows, "l", below=below)


def _with(name: str, value: JSON) -> str:
    """Return a class with its number, such as `fail (0.4)`; the number only if it differs from the class."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and str(value) != name
    return f"{clean(name, 30)} ({value:g})" if number else clean(name, 30)
