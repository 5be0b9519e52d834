"""Calibrations of judges: files in `judges/` beside the runs, named by the judge's hash."""

import re
from pathlib import Path

from tunecheck._describe import read_as
from tunecheck._disk import write_file
from tunecheck._errors import RunError
from tunecheck._files import EvaluatorEntry, JudgeCalibration, read_object
from tunecheck.runs._store import dumps_readably

_JUDGE = re.compile(r"[0-9a-f]{16}")


def calibration_file(results_dir: Path, judge: str) -> Path:
    """Return the path of a judge's calibration."""
    return results_dir / "judges" / f"{judge}.json"


def is_uncalibrated(results_dir: Path, evaluator: EvaluatorEntry) -> bool:
    """Return whether a model judges and has no calibration."""
    return evaluator.judge is not None and not calibration_file(results_dir, evaluator.judge).is_file()


def save_calibration(results_dir: Path, calibration: JudgeCalibration) -> Path:
    """Write a calibration, replace an earlier one of the same judge, and return the file's path.

    Raises:
        RunError: The file cannot be written.
    """
    path = calibration_file(results_dir, calibration.judge)
    try:
        path.parent.mkdir(exist_ok=True)
        write_file(path, dumps_readably(calibration))
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror}; run {calibration.run} is finished") from error
    return path


def find_calibration(results_dir: Path, judge: str | None) -> JudgeCalibration | None:
    """Return the calibration of a judge, or None.

    Raises:
        ConfigurationError: The file cannot be read, or a later version wrote it.
    """
    if judge is None or _JUDGE.fullmatch(judge) is None:
        return None
    path = calibration_file(results_dir, judge)
    if not path.is_file():
        return None
    return read_as(read_object(path), JudgeCalibration, str(path))
