"""Why a conversation failed, beyond what is wrong with it: faults whose codes are causes, each with its evidence."""

from collections.abc import Iterator

from tunecheck._causes import CUT_OFF
from tunecheck._faults import CODES, Fault
from tunecheck.conversations._inference_log import Course


def causes_of_ending(course: Course, failed_turn: int | None) -> Iterator[Fault]:
    """What ended the conversation, and the first answer that was cut off, up to the turn that failed (from 0)."""
    reasons = course.finish_reasons if isinstance(course.finish_reasons, list) else []
    if course.ended_by in CODES:
        yield Fault(code=course.ended_by, turn=len(reasons) or None, message=CODES[course.ended_by])
    for turn, steps in enumerate(reasons if failed_turn is None else reasons[: failed_turn + 1]):
        cut = next((reason for reason in steps if reason in CUT_OFF), None) if isinstance(steps, list) else None
        if cut is not None:
            words = f"{CODES['cut_off']} (finish_reason {cut})"
            yield Fault(code="cut_off", turn=turn + 1, message=words)
            return
