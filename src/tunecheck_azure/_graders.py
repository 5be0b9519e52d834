"""Graders of Azure OpenAI among the evaluators: the package has the service grade the rows of a finished run."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tunecheck.pipeline._finished_rows import ResultRow
from tunecheck_azure._adopted import translated
from tunecheck_azure._exceptions import EvaluationException
from tunecheck_azure._model_configurations import EvaluatorConfig
from tunecheck_azure._results import INPUTS, OUTPUTS


def is_grader(evaluator: object) -> bool:
    """Whether it is one of the package's graders, which are no functions."""
    kinds = type(evaluator).__mro__
    return any(kind.__name__ == "AzureOpenAIGrader" and kind.__module__.startswith("azure.ai.") for kind in kinds)


def grade(
    result: dict[str, object],
    rows: Sequence[ResultRow],
    graders: Mapping[str, object],
    config: Mapping[str, EvaluatorConfig],
    *,
    name: str | None,
    others: Collection[str],
) -> None:
    """Add to a result what the graders say of the run's `rows`, whose target's columns are columns of the data to them.

    `others` are the evaluators that judged these rows; what these said is shown to no grader.

    Raises:
        EvaluationException: the service did not grade; where other evaluators did, this is a warning.
    """
    try:
        graded = _graded([_data_of(row, others) for row in rows], graders, config, name)
    except EvaluationException as error:
        if not others:
            raise
        warnings.warn(f"{', '.join(graders)}: not graded: {error}", stacklevel=3)
        return
    columns = tuple(f"{OUTPUTS}{grader}." for grader in graders)
    shown: Any = result["rows"]
    for row, found in zip(shown, graded["rows"], strict=True):
        row |= {column: value for column, value in found.items() if column.startswith(columns)}
    metrics: Any = result["metrics"]
    metrics |= graded["metrics"]
    result["oai_eval_run_ids"] = graded.get("oai_eval_run_ids", [])


def _graded(
    rows: Iterable[dict[str, object]],
    graders: Mapping[str, object],
    config: Mapping[str, EvaluatorConfig],
    name: str | None,
) -> Any:  # noqa: ANN401 - a dictionary of a package without types
    theirs = import_module("azure.ai.evaluation").evaluate
    with tempfile.TemporaryDirectory() as folder, translated():
        data = Path(folder, "rows.jsonl")
        with data.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        mappings = {key: {"column_mapping": _on_data(each)} for key, each in config.items() if "column_mapping" in each}
        return theirs(data=str(data), evaluators=dict(graders), evaluator_config=mappings, evaluation_name=name)


def _data_of(row: ResultRow, evaluators: Iterable[str]) -> dict[str, object]:
    """The row's columns, those that the target gave over those of the data."""
    said = tuple(f"{OUTPUTS}{name}." for name in evaluators)
    columns = [column for column in row if not column.startswith(said)]
    both = (INPUTS, OUTPUTS)
    return {each.removeprefix(prefix): row[each] for prefix in both for each in columns if each.startswith(prefix)}


def _on_data(entry: EvaluatorConfig) -> dict[str, str]:
    return {name: value.replace("${target.", "${data.") for name, value in entry["column_mapping"].items()}
