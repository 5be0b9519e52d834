"""Options shared by several commands, as base classes of a command's options:

| class | options | for commands that |
|---|---|---|
| `JsonOptions` | `--json` | also print JSON |
| `ResultsOptions` | `--results-dir` | read or write run folders |
| `TrustOptions` | `--trust` | load files named in data and other files |
| `RunOptions` | those above, `--name`, `--concurrency`, … | start runs |
| `ResumableOptions` | those of `RunOptions`, `--resume` | can resume them |
| `ModelOptions` | `--judge`, `--prices`, `--max-cost` | make paid model calls |
| `EvaluatorOptions` | those of `ModelOptions`, `--set`, `--mapping` | create evaluators |
| `ConversationOptions` | `--mode`, `--format`, `--step-limit`, … | run conversations |
| `ClusterOptions`, `ComparingOptions`, `DecisionOptions` | `--cluster`, `--pair-by`, `--margin`, … | compare runs |
| `GateOptions` | `--fail-under`, `--no-worse-than`, … | have gates |
| `DataCheckOptions` | `--limit`, `--benchmark-data`, `--remarks`, … | check rows of data sets |

`cli/_options.py` explains the arguments of `option()`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from tunecheck._errors import ConfigurationError
from tunecheck._json import JSON
from tunecheck._messages import clean
from tunecheck.cli._options import DEFAULT_RESULTS, GATING, RUNNING, SCORING, SHOWING, CommandOptions, flag, option
from tunecheck.runs._store import find_run, is_remote, open_mirror


class JsonOptions(CommandOptions):
    """Options of commands that also print JSON."""

    json: bool = flag("Print JSON.", SHOWING, recorded=False)


class ResultsOptions(CommandOptions):
    """Options of commands that read or write run folders."""

    whole_storage: ClassVar[bool] = False
    """True if the command may open any run in the folder, not only the named ones."""

    results_dir: str | None = option(
        "Folder of runs (default: eval_results), or az://…", "DIR", RUNNING, recorded=False, acts="writes"
    )

    @property
    def folder(self) -> Path:
        """Return the folder of runs, or the local mirror of their storage."""
        place = self.results_dir or DEFAULT_RESULTS
        return open_mirror(place).folder if is_remote(place) else Path(place)

    @property
    def place(self) -> list[str]:
        """Return `--results-dir` and its value as words of a command line; empty for the default folder."""
        return [] if self.results_dir is None else ["--results-dir", self.results_dir]

    @contextmanager
    def around(self) -> Iterator[None]:
        """Keep a local mirror of the runs in remote storage while the command runs; do nothing for a folder.

        The run to resume is claimed, so that no other machine resumes it.
        """
        if not is_remote(self.results_dir or ""):
            yield
            return

        def tell(line: str) -> None:
            print(clean(line, 2_000), file=sys.stderr)

        # Both machines would write to one journal if two resumed the same run.
        run_to_resume = self.given().get("resume")
        with open_mirror(str(self.results_dir)).kept(tell, whole=self.whole_storage) as claim:
            if run_to_resume is not None:
                claim(find_run(run_to_resume, self.folder).id)
            yield


STATISTICS = "Statistics"


class ClusterOptions(CommandOptions):
    """Options of commands that compare runs or prepare comparisons."""

    cluster: str | None = option(
        "Column of dependent rows, or none; default: the data's, else a repeated …_id column.", "COLUMN", STATISTICS
    )


class ComparingOptions(ClusterOptions):
    """Options of commands that compare runs row by row."""

    pair_by: str = option("Pair rows by content or by id.", "HOW", STATISTICS, default="content")


class DecisionOptions(ComparingOptions):
    """Options of commands that decide between runs."""

    guard: list[str] | None = option(
        "Keep the base if NAME gets worse by more than MARGIN, e.g. match:0.02 (repeatable).", "NAME:MARGIN", STATISTICS
    )
    margin: float | None = option("Loss to accept, 0.02 is two points; default: require a better run.", "M", STATISTICS)
    confidence: float = option("Confidence level of intervals and decisions.", "C", STATISTICS, default=0.95)
    allow_simulated: bool = flag("Also compare runs with simulated answers.", STATISTICS)
    allow_changed_evaluator: bool = flag("Decide even if the primary metric's evaluators differ.", STATISTICS)

    details: bool = flag("Show all metrics, slices, causes and rows.", SHOWING)

    @property
    def comparing(self) -> dict[str, Any]:
        """The arguments shared by compare() and select()."""
        names = ("margin", "cluster", "confidence", "allow_simulated", "allow_changed_evaluator", "pair_by")
        return {"guards": _guards(self.guard or []), **{name: getattr(self, name) for name in names}}


def _guards(texts: Sequence[str]) -> dict[str, float]:
    """Return the accepted loss by metric or slice, from the `NAME:MARGIN` texts of `--guard`.

    For example `{"match[domain=refund]": 0.05}` for `["match[domain=refund]:0.05"]`. The last colon separates the
    margin, because values of slices may contain colons.

    Raises:
        ConfigurationError: a text has no name or no margin of 0 or more.
    """
    margins = {}
    for text in texts:
        name, _, number = text.rpartition(":")
        margin = math.nan  # for a text that is no number; it fails the check below
        with suppress(ValueError):
            margin = float(number)
        if not name or not 0 <= margin < math.inf:
            raise ConfigurationError(f"--guard {text!r}: write NAME:MARGIN (margin at least 0), such as match:0.02")
        margins[name] = margin
    return margins


class TrustOptions(CommandOptions):
    """Options of commands that load files named in data and other files."""

    trust: list[str] | None = option(
        "Trust this file or folder, and load what it names, also code (repeatable).", "PATH", RUNNING, recorded=False
    )


class DataCheckOptions(JsonOptions, TrustOptions):
    """Options of commands that check rows of a data set."""

    limit: int | None = option("Check only the first N rows.", "N", least=1)
    benchmark_data: Path | None = option("Folder of BFCL's data for long-context rows; default: of `bfcl get`.", "DIR")
    remarks: bool = flag("Also list remarks: unusual entries that may still be right.")


class RunOptions(JsonOptions, ResultsOptions, TrustOptions):
    """Options of commands that start runs."""

    name: str | None = option("Name of the run; default: made from the inputs.", "NAME", RUNNING, fixed=True)
    concurrency: int | None = option(
        "Calls in flight; default: the endpoint's limit, else 10.", "N", RUNNING, least=1, fixed=False, acts="speeds"
    )
    accept_damage: bool = flag("Use a damaged run; repeat lost calls (`score`: only judges').", RUNNING, recorded=False)
    quiet: bool = flag("Print only the run's folder.", SHOWING, recorded=False)


class ResumableOptions(RunOptions):
    """Options of commands that can resume a run.

    `fixed` is the default of options without their own `fixed`: True if `--resume` must not change them. `anew` says in
    errors how to start a new run with other options.
    """

    fixed: ClassVar[bool] = False
    anew: ClassVar[str] = "with --reuse"

    resume: str | None = option("Finish RUN in its own folder, with its options.", "RUN", RUNNING, recorded=False)


class ModelOptions(CommandOptions):
    """Options of commands that make paid model calls."""

    judge: str | None = option("Model of LLM judges: an endpoint's file or name.", "FILE", SCORING, acts="asks")
    prices: str | None = option("YAML file with each model's prices per million tokens.", "FILE", RUNNING, acts="loads")
    max_cost: float | None = option("Stop before calls cost more than this.", "AMOUNT", RUNNING, least=0, fixed=False)


ASKING = "Requests (conversations and BFCL only)"


class ConversationOptions(CommandOptions):
    """Options of commands that run conversations."""

    mode: str | None = option("tools (default): send tools to the API. text: put them in the prompt.", "MODE", ASKING)
    format: str | None = option("With --mode text: read calls only in this model family's format.", "NAME", ASKING)
    step_limit: int | None = option("Maximum number of answers in one turn; default 20.", "N", ASKING, least=1)
    include_input_log: bool = flag("Keep the messages and tools of every request in the log.", ASKING)

    @property
    def conversation(self) -> dict[str, JSON]:
        """Return the given parameters of the conversation target."""
        given = self.given()
        return {name: given[name] for name in ("mode", "step_limit", "include_input_log", "format") if name in given}


class NamesOptions(CommandOptions):
    """Options of commands that compare calls with BFCL's accepted answers."""

    names: str | None = option("Expected BFCL names: dotted, underscored or auto (default: as called).", "HOW", SCORING)


class EvaluatorOptions(ModelOptions):
    """Options of commands that create evaluators."""

    set: dict[str, JSON] | None = option(
        "Parameter, e.g. bleu.threshold=0.4 (repeatable).", "E.PARAMETER=VALUE", SCORING, acts="sets"
    )
    mapping: dict[str, JSON] | None = option(
        "Source, e.g. 'response=${data.x}' (repeatable).", "PARAMETER=SOURCE", SCORING
    )


# -- gates


class GateOptions(CommandOptions):
    """Options of commands with gates, which decide the exit code."""

    fail_under: list[str] | None = option("Exit 3 unless met, e.g. 'match>=0.8' (repeatable).", "GATE", GATING)
    max_error_rate: float | None = option(
        "Exit 3 if a larger share of rows has an error; default with a gate: 0.", "SHARE", GATING, least=0, most=1
    )
    no_worse_than: str | None = option("Require evidence: at most --margin worse than RUN.", "RUN", GATING)
    margin: float | None = option("Loss that --no-worse-than accepts; 0.02 is two points.", "M", GATING, least=0)
    better_than: str | None = option("Require evidence: primary metric better than RUN's.", "RUN", GATING)
    confidence: float | None = option(
        "Confidence level of gates against a run; default 0.95.", "C", GATING, least=0.5, most=0.9999
    )
    undecided: str | None = option("Exit code of an undecided gate: fail (3) or pass (0); default: 4.", "HOW", GATING)
    allow_changed_evaluator: bool = flag("Let gates compare runs with different evaluators.", GATING)
    allow_simulated: bool = flag("Let gates and uploads use simulated answers.", GATING)

    @property
    def against(self) -> str | None:
        """Return the run that a gate compares with, or None."""
        return self.no_worse_than or self.better_than
