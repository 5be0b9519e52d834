"""The exceptions that Tunecheck raises on purpose; docs/errors.md shows the whole tree."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tunecheck._messages import printable


class TunecheckError(Exception):
    """Base of every error raised on purpose; its text is one line for the user."""

    def __str__(self) -> str:
        """Return the text without control characters: names of files, keys and rows may contain them."""
        return "\n".join(map(printable, super().__str__().split("\n")))


class ConfigurationError(TunecheckError):
    """Wrong use: an unknown option, an invalid mapping, a definition that cannot be read."""


class DataError(ConfigurationError):
    """A data set that cannot be read; the text names the file and, if known, line and column."""


class PluginError(ConfigurationError):
    """A plug-in name is unknown or defined twice, or its code does not load."""


class UntrustedError(ConfigurationError):
    """A file or code would be used that the user did not name; the text says for what, and how to allow it."""


class MissingExtraError(ConfigurationError):
    """An optional dependency is required but not installed."""

    def __init__(self, feature: str, extra: str, package: str = "tunecheck") -> None:
        super().__init__(f"{feature} needs an optional package; install it: pip install '{package}[{extra}]'")


class EndpointError(TunecheckError):
    """A call to an endpoint failed for good.

    `status` is the HTTP status, if any; `request_id` is the service's id of the call. `code` and `param` come from the
    service's error, `said` is its message. `cause` is the code of the cause, if known.
    """

    code: str | None = None
    param: str | None = None
    said: str = ""
    cause: str | None = None

    def __init__(self, message: str, *, status: int | None = None, request_id: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id


class RefusedError(EndpointError):
    """The service rejected the credentials (401 or 403), or the account has no credit left."""

    cause = "access_refused"


class WorkerDied(EndpointError):  # noqa: N818 - the type of error in result rows
    """A call crashed its process, exited it, or ran out of memory."""


class ThrottledError(EndpointError):
    """The service still answered 429 after all retries, or requires a longer wait than calls allow."""

    cause = "throttled"


class TimedOutError(EndpointError):
    """No complete answer arrived in time, after all retries."""

    cause = "timed_out"


class ContentFilterError(EndpointError):
    """The service declined to answer because of its content policy."""


class ReplyError(EndpointError):
    """The service's reply cannot be understood."""


class PromptError(ConfigurationError):
    """A prompt file that is invalid or used wrongly; the text names file, line and key."""


class PromptRenderError(TunecheckError):
    """A prompt's template fails on the values of one row; the text names file and line."""


class RunError(TunecheckError):
    """A run cannot start or continue."""


class StopRunError(RunError):
    """The run must stop in order, because every further row would fail in the same way or exceed the cost limit.

    `resumable` is false if a setting is wrong that a resumed run keeps, such as the model: only a new run can help.
    """

    def __init__(self, message: str, *, resumable: bool = True) -> None:
        super().__init__(message)
        self.resumable = resumable


class RunInterruptedError(RunError):
    """The run was interrupted (Ctrl-C, SIGTERM); the journal in its `folder` has the finished work.

    `resuming` is the command or call that finishes the run, for the text.
    """

    def __init__(self, folder: Path | None = None, resuming: str = "") -> None:
        super().__init__(f"interrupted; go on with {resuming}" if resuming else "interrupted")
        self.folder = folder


class LeftAtOnceError(KeyboardInterrupt):
    """A second Ctrl-C: calls in flight are cancelled."""


def error_text(error: BaseException) -> str:
    """Return the text of an error; for an OSError, the file and the system's reason."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


@contextmanager
def raise_as(kind: type[TunecheckError], subject: object, failure: str = "cannot be read") -> Iterator[None]:
    """Within this block, turn an OSError into an error of this kind: `<subject>: <failure>: <the system's reason>`."""
    try:
        yield
    except OSError as error:
        raise kind(f"{subject}: {failure}: {error.strerror or error}") from None
