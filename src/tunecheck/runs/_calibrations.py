"""Calibrations of judges: kept beside the runs in `judges/`, found again by what `run.json` says of an evaluator."""

import re
from pathlib import Path

from tunecheck._describe import read_as
from tunecheck._disk import write_file
from tunecheck._errors import RunError
from tunecheck._files import EvaluatorEntry, JudgeCalibration, read_object
from tunecheck.runs._store import dumps_readably

_JUDGE = re.compile(r"[0-9a-f]{16}")


def calibration_file(results_dir: Path, judge: str) -> Path:
    """Where the calibration of this judge is, or would be."""
    return results_dir / "judges" / f"{judge}.json"


def is_uncalibrated(results_dir: Path, evaluator: EvaluatorEntry) -> bool:
    """Whether a model judges, and nobody has compared it with people."""
    return evaluator.judge is not None and not calibration_file(results_dir, evaluator.judge).is_file()


def save_calibration(results_dir: Path, calibration: JudgeCalibration) -> Path:
    """Keep a calibration, in place of an earlier one of the same judge; where it is now.

    Raises:
        RunError: it cannot be written.
    """
    path = calibration_file(results_dir, calibration.judge)
    try:
        path.parent.mkdir(exist_ok=True)
        write_file(path, dumps_readably(calibration))
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}; run {calibration.run} is finished") from error
    return path


def find_calibration(results_dir: Path, judge: str | None) -> JudgeCalibration | None:
    """The calibration of a judge, None where there is none.

    Raises:
        ConfigurationError: it cannot be read, or a later version wrote it.
    """
    if judge is None or _JUDGE.fullmatch(judge) is None:
        return None
    path = calibration_file(results_dir, judge)
    if not path.is_file():
        return None
    return read_as(read_object(path), JudgeCalibration, str(path))
