"""`tunecheck check`: will a run work? Check data sets and endpoints before anything is paid for.

`check` prints one result for each of its arguments. Plug-ins add data checks. The core's own check is
`find_unusable_rows()`.

`--dataset` means a data set. An argument means one in these cases (`_is_data`); any other argument means an endpoint:

| argument | reason |
|---|---|
| `val.jsonl`, `val.csv` and others of `SUFFIXES` | the ending of a data file |
| `datasets/` | a folder |
| `bfcl:multi_turn_base` | a loader before the colon; but `http://…` and names ending in `.yaml` are endpoints |

A row has these problems (`_RowCheck.problems`):

* no messages, or messages in a wrong form, unless the data holds recorded answers
* a ground truth with a call, but no tools: always only a note, because the messages may describe them
* no column for an evaluator's parameter
* a misspelt key in a tool definition

A problem of all rows is only a note if a column may be mapped, or if the user did not choose the evaluators: the data
may be for another target or for other evaluators. Rows of conversations and of another target are not checked here.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby, islice
from pathlib import Path
from typing import TypeAlias, cast

import msgspec

from tunecheck import datasets, endpoints
from tunecheck._errors import ConfigurationError, TunecheckError
from tunecheck._json import JSON, Missing, find_value
from tunecheck._messages import clean, plural, printable
from tunecheck._trust import Trust
from tunecheck.calls._schemas import TOOL_COLUMNS, ToolDefinitions
from tunecheck.cli._console import print_json
from tunecheck.cli._evaluate.evaluator_choice import DEFAULT_EVALUATORS
from tunecheck.cli._options import DONE, NOT_MET, Invocation, argument, command, option
from tunecheck.cli._running import is_embedded, load_named
from tunecheck.cli._shared_options import DataCheckOptions
from tunecheck.datasets._reading import SUFFIXES
from tunecheck.endpoints._base import SOME_COLUMNS, Completion
from tunecheck.endpoints._target import read_messages, read_paths
from tunecheck.pipeline._mapping import bind_evaluator, parse_mapping, read_layers
from tunecheck.pipeline._scoring import BoundEvaluator, ColumnMissingError, row_kind_reader, value_reader
from tunecheck.plugins import find, load_by_name
from tunecheck.views import SIMULATED

_MOST_PLACES = 3
"""The most rows that a line on a problem names."""
_MAP = "map another column under column_mapping of the data set's YAML file: "
_NO_TOOLS = "the ground truth calls a function, but the row has no tools"


class CheckResult(msgspec.Struct, frozen=True):
    """The result of checking one data set or endpoint: lines for users, and facts for `--json`."""

    ok: bool
    lines: Sequence[str]
    facts: Mapping[str, JSON]


DataCheck: TypeAlias = "Callable[[datasets.Dataset, DataCheckOptions], CheckResult]"
"""A plug-in's check of the rows of a data set, registered under `data_checks`."""


class CheckOptions(DataCheckOptions):
    targets: list[str] | None = argument(
        "Data sets (a file, or e.g. bfcl:multi_turn_base) and endpoints.", "WHAT…", default=None
    )
    dataset: list[str] | None = option("Data set to check, also without a data file's ending (repeatable).", "FILE")
    endpoint: list[str] | None = option("Endpoints to check, the same as WHAT.", "A,B", names=True)


@command(CheckOptions)
def check(options: CheckOptions, invocation: Invocation) -> int:
    """Check whether a run will work.

    Data sets: ids, messages, tool definitions and ground truth. Calls of conversations are replayed on their
    simulators. Turns count from 0.

    Endpoints: questions with known answers show how the model is served, and which lines to change.

    Exit codes: 0 no problem; 2 a definition or an option is wrong; 3 a check found a problem, or an endpoint does not
    answer.
    """
    names = [*(options.targets or ()), *(options.dataset or ()), *(options.endpoint or ())]
    if not names:
        raise ConfigurationError("nothing to check: name data sets or endpoints, as in `tunecheck check rows.jsonl`")

    data = {*(options.dataset or ()), *filter(_is_data, names)}
    results = [_check_data(name, options) if name in data else _check_endpoint(name) for name in names]

    if options.json:
        facts: list[JSON] = [dict(result.facts) for result in results]
        print_json(facts[0] if len(facts) == 1 else facts)
    else:
        print(*(printable(line) for result in results for line in result.lines), sep="\n")
    return DONE if all(result.ok for result in results) else NOT_MET


def _is_data(name: str) -> bool:
    """Return True if a name means a data set: a data file, a folder, or `format:name`; else it means an endpoint."""
    is_url = name.startswith(("http://", "https://"))
    is_loader = ":" in name and Path(name).suffix not in (".yaml", ".yml")

    return not is_url and (is_loader or Path(name).suffix.lower() in SUFFIXES or Path(name).is_dir())


def _check_endpoint(name: str) -> CheckResult:
    """Ask the endpoint questions with known answers, and return what that shows about its serving."""
    import asyncio

    definition = None if is_embedded(name) else endpoints.read_definition(name)
    data = {} if definition is None else definition.data
    examination = asyncio.run(endpoints.examine(load_named(name, Trust()), data))
    return CheckResult(examination.ok, [*_endpoint_lines(examination, definition)], examination.as_json())


def _endpoint_lines(examination: endpoints.Examination, definition: endpoints.Definition | None) -> Iterator[str]:
    """Yield the lines of an endpoint's examination: questions, findings with advice, and lines to change.

    `definition` is None for the built-in simulated endpoint.
    """
    yield from examination.lines()
    if examination.simulated:
        yield SIMULATED

    counts = examination.counts
    if examination.findings and examination.answered:
        skipped = f", {counts['skip']} skipped" if counts["skip"] else ""
        yield f"{counts['pass']} checks passed, {counts['warn']} to look at, {counts['fail']} failed{skipped}"
        yield ""
        # Adjacent checks with the same finding share one entry.
        for finding, checks in groupby(examination.findings, lambda check: examination.findings[check]):
            yield f"{finding.status}  {', '.join(checks)}: {finding.evidence}"
            if finding.advice:
                yield f"      {finding.advice}"

    if examination.changes and definition is not None:
        yield ""
        yield f"put these lines into {definition.document.name}, and remove other lines with the same keys:"
        yield from (f"  {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in examination.changes.items())


def _check_data(name: str, options: CheckOptions) -> CheckResult:
    """Run plug-ins' data checks on a data set; without any, check only that rows are usable."""
    dataset = datasets.open_dataset(name, limit=options.limit, number_ids=True)
    checks: Mapping[str, DataCheck] = load_by_name("data_checks")

    if not checks:
        row_count = sum(1 for _ in dataset.rows())
        unusable, lines = find_unusable_rows(dataset)
        facts: dict[str, JSON] = {"rows": row_count, "problems": sum(map(len, unusable.values())), "findings": []}
        return CheckResult(not unusable, [*lines, f"read {plural(row_count, 'row')}"], facts)

    results = [check(dataset, options) for check in checks.values()]
    lines = [line for result in results for line in result.lines]
    facts = {key: value for result in results for key, value in result.facts.items()}
    return CheckResult(all(result.ok for result in results), lines, facts)


def find_unusable_rows(dataset: datasets.Dataset) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Find the rows without messages, without a column for an evaluator, or with misspelt tool definitions.

    Return two values: the place of each such row by problem and row id, and a line for each problem. For example
    `{"cannot be scored: …": {"row-3": "val.jsonl:3"}}`, and `1 row (val.jsonl:3): cannot be scored: …`. Problems that
    may be intended have only a line, such as `note: all 46 rows: …`.
    """
    check = _RowCheck(dataset)
    places, row_count = defaultdict[str, dict[str, str]](dict), 0
    for row, place in zip(dataset.rows(), dataset.places(), strict=False):
        row_count += 1
        for problem in check.problems(row.values):
            places[problem][row.id] = place

    lines = []
    for problem, place_by_id in [*places.items()]:
        count = len(place_by_id)
        more = f" and {count - _MOST_PLACES:,} more" if count > _MOST_PLACES else ""
        rows = f"{plural(count, 'row')} ({', '.join(islice(place_by_id.values(), _MOST_PLACES))}{more})"

        # A problem of all rows may be meant: their columns are mapped later, or they are for other evaluators.
        in_all_rows = count == row_count
        may_be_meant = in_all_rows and (_MAP in problem or not dataset.defaults.evaluators)
        if problem.startswith(_NO_TOOLS) or may_be_meant:
            rows = f"note: all {row_count:,} rows" if in_all_rows and row_count > 1 else f"note: {rows}"
            del places[problem]

        lines.append(clean(f"{rows}: {problem}", 600))
    return places, lines


class _RowCheck:
    """Finds what keeps a row of a data set from being sent to an endpoint and scored."""

    def __init__(self, dataset: datasets.Dataset) -> None:
        """Prepare to read the rows by the data set's mappings, for its evaluators or the default ones.

        Raises:
            ConfigurationError: A mapping cannot be read, or an evaluator does not exist or does not load.
        """
        defaults = self._defaults = dataset.defaults
        parse_mapping(defaults.column_mapping, defaults.place_of)  # raises an error with the mapping's place
        read_paths(defaults.target_mapping, defaults.target_places)

        self._messages_column = defaults.target_mapping.get("messages", "messages or query")
        self._messages = value_reader({"default": parse_mapping(defaults.target_mapping, "")}, "messages", "query")

        names = defaults.evaluators or DEFAULT_EVALUATORS
        layers = read_layers(None, names, defaults.evaluator_mapping)
        # If the messages are mapped, the mapping of `query` does not count for them, as in a run (`read_also`).
        query_mapping = {} if "messages" in defaults.target_mapping else layers["default"]
        self._query = value_reader({"default": query_mapping}, "query")
        self._tools = value_reader(layers, *TOOL_COLUMNS)
        self._kind = row_kind_reader(layers)

        self._evaluators: list[BoundEvaluator] = []
        for name in names:
            evaluator = find("evaluators", name)
            with suppress(TunecheckError):  # judges are made with their model
                self._evaluators.append(bind_evaluator(name, evaluator, layers[name]))

        # Columns that an answer will have: an evaluator's parameter may be mapped to them.
        self._columns_of_answers = dict.fromkeys([*Completion().columns(), *SOME_COLUMNS])

    def problems(self, columns: Mapping[str, JSON]) -> Iterator[str]:
        """Yield the problems of a row with these columns; a row of a conversation or of another target has none."""
        if "turns" in columns or self._defaults.target is not None:
            return

        if "${data." not in self._defaults.column_mapping.get("response", ""):  # else the rows have recorded answers
            try:
                found = self._messages(columns, {}) or self._query(columns, {})
                read_messages(cast("JSON", found), self._messages_column)
            except ValueError as error:
                yield f"{error}; correct the column, or {_MAP}target.messages: {_reference_to(columns, 'role')}"

            has_tools = "tools" in self._defaults.target_mapping or self._tools(columns, {}) is not None
            if not has_tools and self._kind(columns, {}) == "call":
                column = _reference_to(columns, "function")
                yield f"{_NO_TOOLS}; unless the messages contain them, {_MAP}tool_definitions: {column}"

        for evaluator in self._evaluators:
            try:
                evaluator.bind(columns, self._columns_of_answers)
            except ColumnMissingError as error:  # its text begins with the evaluator and a colon
                yield f"cannot be scored: {str(error).partition(': ')[2]}"

        with suppress(ValueError):  # reported with the definitions
            tools = ToolDefinitions.read(self._tools(columns, {}))
            yield from (f"a tool definition has the unknown key {key}" for key in tools.misspelt_keys())


def _reference_to(columns: Mapping[str, JSON], key: str) -> str:
    """Return a reference to the first column with a list whose first object has this key; else to `COLUMN`.

    For the key `role`, `"${data.chat}"` if the row has a column `chat` with `[{"role": "user", …}]`.
    """
    lists = (name for name in columns if not isinstance(find_value(columns, (name, 0, key)), Missing))
    return f'"${{data.{next(lists, "COLUMN")}}}"'
