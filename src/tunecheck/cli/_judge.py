"""`tunecheck judge calibrate`: measure agreement between an evaluator, such as an LLM judge, and human labels."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON, real_number
from tunecheck._messages import clean, command_line, plural
from tunecheck._trust import Trust
from tunecheck.cli._console import check_output, print_path, print_result, write_output
from tunecheck.cli._options import DONE, FAILED, SCORING, SHOWING, Invocation, command, flag, option
from tunecheck.cli._running import begin, run_arguments, run_errors
from tunecheck.cli._shared_options import EvaluatorOptions, ResumableOptions
from tunecheck.pipeline._costs import cost_text
from tunecheck.runs._store import Run, dumps_readably
from tunecheck.views import Cell, Part, Sentence, Table, Text, View, Words

if TYPE_CHECKING:
    from tunecheck.evaluation._calibration import Calibration
    from tunecheck.statistics._agreement import Kappa
    from tunecheck.statistics._results import Estimate, Proportion

_LABELS = "Labels"


class CalibrateOptions(EvaluatorOptions, ResumableOptions):
    command: ClassVar[str] = "judge calibrate"
    anew: ClassVar[str] = "without --resume"

    labels: str | None = option("File of rows with human labels (.jsonl .json .csv .parquet).", "FILE", _LABELS)
    label_column: str | None = option("Column of the labels; default: label.", "COLUMN", _LABELS)
    label_kind: str | None = option(
        "pass_fail (pass, true, yes, 1 …) or score (numbers, compared with the threshold); default: guessed.",
        "KIND",
        _LABELS,
    )
    label_threshold: float | None = option("Lowest label that passes; default: the evaluator's.", "N", _LABELS)
    limit: int | None = option("Use only the first N rows.", "N", _LABELS, least=1)
    evaluator: str | None = option("Evaluator to calibrate; `tunecheck plugins` lists the names.", "NAME", SCORING)
    metric: str | None = option("Metric to compare; default: the evaluator's main metric.", "METRIC", SCORING)
    save: bool = flag("Keep the result; runs in the results folder then show corrected rates.", _LABELS, recorded=False)
    out: str | None = option("Write all results as JSON.", "FILE", SHOWING, recorded=False, acts="writes")


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
        missing = "--labels FILE" if options.labels is None else "--evaluator NAME"
        raise ConfigurationError(f"a calibration needs labels and an evaluator: give {missing}, or --resume RUN")

    # A file that cannot be written must not cost a run.
    check_output("--out", options.out)
    calibration = _calibrate(options, options.labels, options.evaluator, trust)
    # From here on, Ctrl-C reports that the run is finished.
    invocation.finished = str(calibration.run_dir)
    _write_and_print(calibration, options)

    if calibration.compared == 0:
        advice = f"see why with `tunecheck report {calibration.run_dir}`"
        print(f"error: no row with a label got a verdict: {advice}", file=sys.stderr)
        return FAILED
    return DONE


def _calibrate(options: CalibrateOptions, labels: str, name: str, trust: Trust) -> Calibration:
    """Run the evaluator over the labelled rows and return its agreement with the labels.

    Raises:
        ConfigurationError: an option does not fit the evaluator or the data.
    """
    from tunecheck.cli._evaluate.evaluator_choice import asks_models, mapping_layers
    from tunecheck.cli._evaluate.prepared_run import chosen_evaluators
    from tunecheck.evaluation._calibration import calibrate as run_calibration

    evaluator = chosen_evaluators(options, [name], options.set or {}, trust, trust)[name]
    if options.judge is not None and not asks_models(evaluator):
        raise ConfigurationError(f"--judge has no effect, because {name!r} calls no model: leave --judge out")

    layers = mapping_layers(options.mapping or {}, [name])
    if "target" in layers:
        raise ConfigurationError("--mapping target.… needs an endpoint, but a calibration calls none: leave it out")

    names = ("label_kind", "label_threshold", "metric", "save", "limit")
    return run_calibration(
        labels=labels,
        evaluator=evaluator,
        name=name,
        label_column=options.label_column or "label",
        column_mapping={**layers.get("default", {}), **layers.get(name, {})},
        evaluation_name=options.name,
        **{name: getattr(options, name) for name in names},
        **run_arguments(options, "calibrate", max_cost=options.max_cost, trust=trust),
    )


def _write_and_print(calibration: Calibration, options: CalibrateOptions) -> None:
    """Write the calibration to `--out` if given; print it as JSON, as its folder (`--quiet`), or as a page."""
    report = calibration.to_json()
    if options.out is not None:
        write_output(options.out, dumps_readably(report))

    if options.quiet and not options.json:
        print_path(calibration.run_dir)
        if calibration.simulated:
            print(_SIMULATED, file=sys.stderr)
    else:
        print_result(report if options.json else _view(calibration, options.out))


_SIMULATED = "SIMULATED verdicts: no model judged"

_MOST_DIFFERENCES = 3
"""The most disagreements on the page; `--out` writes all."""
_NOTHING = "–"


def _view(calibration: Calibration, out: str | None) -> View:
    """Return the page of a calibration: sentences, figures, and the first disagreements.

    `out` is the file with all disagreements; None if none is written.
    """
    parts: list[Part] = [Text([*_sentences(calibration)]), _figures(calibration)]
    parts += [_confusion(calibration)] if calibration.compared else []
    parts += [_differences(calibration, out)] if calibration.differences else []

    costs = [cost_text(usage) for usage in calibration.usage.values() if isinstance(usage, dict)]
    cost = "".join(f" · cost {text}" for text in costs if text)
    saved = "" if calibration.saved is None else f" · pass rates are corrected with {clean(calibration.saved, 500)}"

    parts.append(Text([f"files in {clean(calibration.run_dir, 500)}{cost}{saved}"]))
    return View(f"{calibration.evaluator} against labels", parts, [clean(note) for note in calibration.notes])


def _sentences(calibration: Calibration) -> Iterator[Sentence]:
    """Yield sentences: agreement with people, the most common error or the main disagreement, then the next command.

    For example:

        politeness agrees with people on 42 of 45 rows (93.3%, Cohen's kappa 0.86).
        Main disagreement: label fail but verdict pass, 2 of 3 disagreements, e.g. row-7. Say in the prompt how …
        Next, look at every row:  tunecheck report val-20260101T120000Z-0a1b2c
    """
    share, errors = calibration.accuracy, calibration.errors
    metric = f" ({calibration.metric})" if calibration.metric not in (None, calibration.evaluator) else ""
    kappa = "" if calibration.kappa.value is None else f", Cohen's kappa {calibration.kappa.value:.2f}"

    percent, _ = _share_and_interval(share)
    agreed = f"agrees with people on {share.hits:,} of {plural(share.of, 'row')} ({percent}{kappa})"
    simulated = f"{_SIMULATED}. " if calibration.simulated else ""
    yield Words(f"{simulated}{clean(calibration.evaluator, 60)}{clean(metric, 60)} {agreed}.", "strong")

    classes = Counter((row.label_class, row.verdict) for row in calibration.differences)
    if errors:
        yield f"{plural(errors, 'row')} ended in an error: {next(run_errors(calibration.run_dir, 'row'), '')}."
    elif classes:
        ((label, verdict), count) = classes.most_common(1)[0]
        examples = (row.row_id for row in calibration.differences if (row.label_class, row.verdict) == (label, verdict))
        words = f"label {clean(label, 30)} but verdict {clean(verdict, 30)}"
        rows = f"{count:,} of {plural(classes.total(), 'disagreement')}, e.g. {clean(next(examples), 60)}"
        yield f"Main disagreement: {words}, {rows}. Say in the prompt how to judge such rows, or change the threshold."
    else:
        yield "No row differs."

    aim, arguments = _next_step(calibration)
    yield f"Next, {aim}:  {command_line(['tunecheck', *arguments])}"


def _next_step(calibration: Calibration) -> tuple[str, list[str]]:
    """Return the aim of the user's next command, and the command's words after `tunecheck`."""
    resume = ["judge", "calibrate", "--resume", calibration.run_dir.name]
    report = ["report", calibration.run_dir.name]

    if calibration.errors and Run(calibration.run_dir).fails_again:
        return "look at the errors that came again (the agreement leaves these rows out)", report
    if calibration.errors:
        return "retry the rows with an error", resume
    if calibration.saved is None and calibration.usage:  # only a judge uses a model, and only a judge can be saved
        return "correct this judge's pass rates with these labels", [*resume, "--save"]
    return "look at every row", report


def _figures(calibration: Calibration) -> Table:
    """Return the table of figures: compared rows, accuracy, kappa, precision and recall of fail, figures of scores.

    For example `accuracy  93.3%  82.1% to 97.7%; 42 of 45`.
    """
    counts = {
        "without a label": calibration.unlabelled,
        "not applicable": calibration.not_applicable,
        "with an error": calibration.errors,
    }

    left_out = ", ".join(f"{count:,} {words}" for words, count in counts.items() if count)
    remark = f"of {plural(calibration.rows, 'row')}" + (f"; left out: {left_out}" if left_out else "")
    remark += f"; {calibration.confidence:.0%} intervals"

    rows: list[tuple[Cell, ...]] = [
        ("compared", f"{calibration.compared:,}", remark),
        (Words("accuracy", "strong"), *_share_and_interval(calibration.accuracy)),
        (Words("Cohen's kappa", "strong"), *_value_and_interval(calibration.kappa)),
        ("precision of fail", *_share_and_interval(calibration.precision)),
        ("recall of fail", *_share_and_interval(calibration.recall)),
    ]

    scores, best = calibration.scores, calibration.threshold
    if scores is not None:
        value, remarks = _value_and_interval(scores.mean_error)
        size = "" if scores.mean_absolute_error is None else f"; {scores.mean_absolute_error:.2f} absolute"
        rows += [
            ("weighted kappa", *_value_and_interval(scores.weighted_kappa)),
            ("correlation", *_value_and_interval(scores.correlation)),
            ("mean error", value, f"{remarks}, score minus label{size}"),
        ]
    if best is not None:
        share, interval = _share_and_interval(best.accuracy)
        rows.append(("best threshold", f"{best.threshold:g}", f"right on {share} of held-out rows, {interval}"))

    return Table(("", "", ""), rows, "lrl")


def _value_and_interval(figure: Kappa | Estimate) -> tuple[str, str]:
    """Return two texts: the figure's value, or a dash without one; and its interval and remark, "" without both."""
    interval = "" if figure.low is None or figure.high is None else f"{figure.low:.2f} to {figure.high:.2f}"
    value = _NOTHING if figure.value is None else f"{figure.value:.2f}"
    return value, "; ".join(part for part in (interval, clean(figure.remark or "", 200)) if part)


def _share_and_interval(share: Proportion) -> tuple[str, str]:
    """Return a share as percent, then its interval and counts: `93.3%` and `82.1% to 97.7%; 42 of 45`.

    Without a value they are a dash and "no such row".
    """
    if share.value is None or share.low is None or share.high is None:
        return _NOTHING, "no such row"
    return f"{share.value:.1%}", f"{share.low:.1%} to {share.high:.1%}; {share.hits:,} of {share.of:,}"


def _confusion(calibration: Calibration) -> Table:
    """Return the table that counts rows by label and verdict."""
    rows: list[tuple[Cell, ...]] = [
        (Words(f"label {label}", "strong"), *(f"{count:,}" for count in verdicts.values()))
        for label, verdicts in calibration.confusion.items()
    ]
    return Table(("", *(f"verdict {name}" for name in calibration.confusion)), rows)


def _differences(calibration: Calibration, out: str | None) -> Table:
    """Return a table of the first rows whose verdict differs from the label; `out` is the file with all, if any."""
    rows = [
        (
            Words(clean(row.row_id, 40), foreign=True),
            _class_text(row.label_class, row.label),
            _class_text(row.verdict, row.score),
            Words(clean(row.reason or "", 200), "dim", foreign=True),
        )
        for row in calibration.differences[:_MOST_DIFFERENCES]
    ]

    more = len(calibration.differences) - _MOST_DIFFERENCES
    where = f"in {clean(out, 200)}" if out is not None else "with --out FILE"
    below = f"and {plural(more, 'row')} more, {where}" if more > 0 else ""

    return Table(("row", "label", "verdict", "reason"), rows, "l", below=below)


def _class_text(name: str, value: JSON) -> str:
    """Return a class with its number, such as `fail (0.4)`; without the number if the class is that number."""
    # The class of a score may be the score itself, which is not repeated.
    number = real_number(value) if str(value) != name else None
    return clean(name, 30) if number is None else f"{clean(name, 30)} ({number:g})"
