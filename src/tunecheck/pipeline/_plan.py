"""What a run is made of, and how far it is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tunecheck._targets import Row, Target
from tunecheck.pipeline._executors import DEFAULT_TIMEOUT_S
from tunecheck.pipeline._scoring import BoundEvaluator


@dataclass(frozen=True)
class Plan:
    """What a run is made of."""

    run_id: str
    rows: Callable[[], Iterator[Row]]
    target: Target | None
    evaluators: Sequence[BoundEvaluator]
    concurrency: int
    workers: int
    """Processes for synchronous evaluators; 0: none."""
    row_kind: Callable[[Mapping[str, object], Mapping[str, object]], str | None]
    group_column: str | None = None
    """Rows with the same value in it are answered in order, where the target has no groups of its own."""
    row_count: int | None = None
    folder: Path | None = None
    """The run's folder, where a target may keep files of its own."""
    fail_on_evaluator_errors: bool = False
    send_untrusted: bool = True
    """Whether evaluators that do not declare themselves `pure` go to worker processes, too."""
    isolate: bool = False
    """Whether files of the workspace run in a process each, where they do not go to those anyway."""
    evaluator_timeout: float = DEFAULT_TIMEOUT_S
    """Seconds that one call of an evaluator may take."""


@dataclass(slots=True)
class Tally:
    """How far a run is, for progress."""

    read: int = 0
    answered: int = 0
    finished: int = 0
    failed: int = 0
    reused: int = 0
    reused_verdicts: int = 0
    simulated: bool = False
    """Some answer says of itself that no real model gave it."""
    masked: int = 0
    """Answers of the target that repeated a secret, which is masked."""
    notes: list[str] = field(default_factory=list)
