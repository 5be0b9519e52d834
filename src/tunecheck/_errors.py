"""The exception tree: every error that Tunecheck raises on purpose; docs/errors.md shows it as a whole."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class TunecheckError(Exception):
    """Base of every error raised on purpose; its text is one line made for a person."""


class ConfigurationError(TunecheckError):
    """Wrong use: an unknown option, a broken mapping, a definition that cannot be read."""


class DataError(ConfigurationError):
    """A data set that cannot be read; the text names the file and, where there is one, line and column."""


class PluginError(ConfigurationError):
    """A plug-in name is unknown or found twice, or its code does not load."""


class UntrustedError(ConfigurationError):
    """Code or a file that the user did not name would be used; the text says for what, and how to allow it."""


class MissingExtraError(ConfigurationError):
    """An optional dependency is needed and not installed."""

    def __init__(self, feature: str, extra: str, package: str = "tunecheck") -> None:
        super().__init__(f"{feature} needs an optional package: pip install '{package}[{extra}]'")


class EndpointError(TunecheckError):
    """A call to an endpoint failed for good.

    `status` is the HTTP status, if any; `request_id` is the service's id of the call. `code` and `param` come from the
    service's error, `said` is its text. `cause` is the code of the cause, if known.
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
    """The service refused the credentials (401 or 403), or the account has nothing left to spend."""


class WorkerDied(EndpointError):  # noqa: N818 - the type of error in result rows
    """A call ended the process that it ran in: a crash, an exit, too little memory."""


class ThrottledError(EndpointError):
    """The service still answered 429 after all retries, or asks for a longer wait than a call waits."""


class TimedOutError(EndpointError):
    """No complete answer came in time, after all retries."""


class ContentFilterError(EndpointError):
    """The service declined to answer because of its content policy."""


class ReplyError(EndpointError):
    """The service answered with something that cannot be understood."""


class PromptError(ConfigurationError):
    """A prompt file that cannot be used, or is used wrongly; the text names file, line and key."""


class PromptRenderError(TunecheckError):
    """The template of a prompt fails on the values of one row; the text names file and line."""


class RunError(TunecheckError):
    """A run that cannot start, go on, or be continued."""


class StopRunError(RunError):
    """The run must stop now, in order: going on would only repeat the same failure, row after row."""


class RunInterruptedError(RunError):
    """The run was stopped (Ctrl-C, SIGTERM); `folder` is its run folder, with its finished work in the journal."""

    def __init__(self, folder: Path | None) -> None:
        super().__init__(f"interrupted; go on with --resume {folder.name}" if folder else "interrupted")
        self.folder = folder


class LeftAtOnceError(KeyboardInterrupt):
    """A second Ctrl-C: calls in flight are abandoned."""


def error_text(error: BaseException) -> str:
    """Return an error in words: the file and the system's reason for an OSError, else the error's text."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


@contextmanager
def raise_as(kind: type[TunecheckError], what: object, failed: str = "cannot be read") -> Iterator[None]:
    """Turn an OSError into an error of a kind, in one line: the file, what failed, and why."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {failed}: {error.strerror or error}") from None
