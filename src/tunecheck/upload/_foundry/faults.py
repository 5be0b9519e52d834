"""How the calls of an upload fail: an attempt that came to nothing, and the error that a person reads."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Literal

from tunecheck._errors import RunError
from tunecheck._json import JSON
from tunecheck.endpoints._retry import is_passing


class UploadError(RunError):
    """An upload that did not get through.

    `step` says where, `status` is the service's HTTP status and `request_id` its own id of the call, where there are
    any. `unsure`: nobody knows whether the service did what it was asked.
    """

    def __init__(
        self,
        message: str,
        *,
        step: str = "",
        status: int | None = None,
        request_id: str | None = None,
        unsure: bool = False,
    ) -> None:
        super().__init__(message)
        self.step = step
        self.status = status
        self.request_id = request_id
        self.unsure = unsure

    def explained(self, again: str, record: Path, *, deleted: bool) -> UploadError:
        """The same, and what to do about it: the command to repeat; `deleted`: the run over there may be gone."""
        advice = f"the run itself is whole; go on with: tunecheck upload {again}"
        if deleted and self.status == HTTPStatus.NOT_FOUND:
            advice = f"if the run was deleted over there, delete {record} and upload again"
        text = f"upload failed: {self}; {advice}"
        return UploadError(text, step=self.step, status=self.status, request_id=self.request_id, unsure=self.unsure)


class AttemptFailed(Exception):  # noqa: N818 - it is an outcome that becomes an error or a new attempt
    """One attempt that came to nothing.

    `sort`: `unsent` (the service never saw it), `lost` (it may have), `refused` (it said no), `fatal` (stop).
    """

    def __init__(
        self,
        sort: Literal["unsent", "lost", "refused", "fatal"],
        reason: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.sort = sort
        self.status = status
        self.request_id = request_id
        self.retry_after = retry_after

    @property
    def unsure(self) -> bool:
        """Whether the service may have done what it was asked."""
        if self.sort == "refused":
            return self.status in (408, 500, 502, 504) or (self.status == 503 and self.retry_after is None)
        return self.sort == "lost"

    def again(self, *, repeatable: bool) -> bool:
        """Whether it is worth another attempt, and safe."""
        if self.sort in ("fatal", "unsent"):
            return self.sort == "unsent"
        passing = self.sort == "lost" or (self.status is not None and self.status != 409 and is_passing(self.status))
        return passing and (repeatable or not self.unsure)


def status_name(status: int) -> str:
    """`403 Forbidden`."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def said(body: JSON, raw: bytes) -> str:
    """What it says: `{"error": {"code", "message"}}`, MLflow's `{"error_code", "message"}`; text."""
    error = field(body, "error")
    holder = error if isinstance(error, dict) else body
    if isinstance(holder, dict):
        code = holder.get("code") or holder.get("error_code")
        message = holder.get("message") or holder.get("detail") or (error if isinstance(error, str) else "")
        if message:
            return f"({code}) {message}" if isinstance(code, str) else str(message)
    text = raw[: 1 << 14].decode("utf-8", "replace")
    return "a web page" if text.lstrip()[:1] == "<" else text


def field(value: JSON, *path: str | int) -> JSON:
    """What stands at a path in a service's answer, None where nothing does."""
    for key in path:
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and key < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value
