"""Replies that are no answer, as typed errors: one line that says what happened and what to do about it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from tunecheck._errors import ContentFilterError, EndpointError, RefusedError, ReplyError, ThrottledError, TimedOutError
from tunecheck._json import JSON, loads
from tunecheck._messages import clean
from tunecheck.endpoints._limits import is_passing
from tunecheck.endpoints._masking import Redactor
from tunecheck.endpoints._transport import Reply

_REQUEST_IDS = ("x-request-id", "x-ms-request-id", "apim-request-id", "x-ms-client-request-id", "request-id")

_FILTER_CODES = frozenset({"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"})

_MODEL_STATUS = "ms-azureml-model-error-statuscode"
"""Azure ML answers 424 where the container behind it failed, and puts the container's own status here."""

_KINDS: Mapping[int, type[EndpointError]] = {
    401: RefusedError,
    403: RefusedError,
    408: TimedOutError,
    429: ThrottledError,
    504: TimedOutError,
}

_ADVICE = {
    301: "redirects are not followed: write the final url",
    401: "check the key or sign-in",
    403: "check the key's or identity's rights",
    404: "check the url and the deployment's name",
    413: "the request is too large",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that gave no answer. `retry`: another one may; `overload`: the service is overloaded or throttles."""

    error: EndpointError
    retry: bool
    retry_after_s: float | None = None
    overload: bool = False


def request_id(headers: Mapping[str, str], redactor: Redactor) -> str | None:
    """The service's own id of a call, from the first header that has one."""
    for name in _REQUEST_IDS:
        value = headers.get(name)
        if value:
            return clean(redactor.text(value), 128) or None
    return None


def reply_failure(reply: Reply, who: str, redactor: Redactor, retry_after: float | None) -> Failure | None:
    """What a reply's status says, None where it says that the body is the answer."""
    if 200 <= reply.status < 300:
        return None
    status = reply.status
    own = reply.headers.get(_MODEL_STATUS, "")
    if status == HTTPStatus.FAILED_DEPENDENCY and re.fullmatch(r"[3-5][0-9][0-9]", own, re.ASCII):
        status = int(own)
    id_ = request_id(reply.headers, redactor)
    try:
        body = loads(reply.body) if len(reply.body) < 1 << 20 else None
    except ValueError:
        body = None
    filtered = _filter_reason(body)
    if filtered is not None:
        text = clean(redactor.text(filtered), 200)
        return Failure(ContentFilterError(f"{who} declined the content: {text}", status=status, request_id=id_), False)
    if 300 <= status < 400:
        # The query of a redirect may carry a token.
        said = f"to {reply.headers.get('location', 'nowhere').partition('?')[0]}"
        advice = _ADVICE.get(301)
    else:
        said, advice = _said(body, reply), _ADVICE.get(status)
    message = f"{who} answered {_status_name(reply.status)}"
    if status != reply.status:
        message += f" (the model's own status: {_status_name(status)})"
    message += f": {clean(redactor.text(said), 200)}" if said else ""
    message += f" ({advice})" if advice else ""
    kind = _KINDS.get(status, EndpointError)
    return Failure(
        kind(message, status=status, request_id=id_), is_passing(status), retry_after, overload=status in (429, 503)
    )


def _status_name(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _said(body: JSON, reply: Reply) -> str:
    """The words of an error reply: its JSON's message, a page's title, or the text itself."""
    if isinstance(body, dict):
        error = body.get("error")
        for holder in (error if isinstance(error, dict) else {}, body):
            for key in ("message", "detail", "error", "title", "error_description"):
                value = holder.get(key)
                if isinstance(value, str) and value:
                    return value
    # Much more than is shown: a secret cut in half at the end would not be recognised.
    text = reply.body[: 1 << 16].decode("utf-8", "replace")
    if is_page(reply):
        title = re.search(r"<title[^>]*>([^<]{1,200})", text, re.IGNORECASE)
        return f"a web page titled {title.group(1).strip()!r}" if title else "a web page"
    return text


def is_page(reply: Reply) -> bool:
    """Whether the reply is a web page, whatever it says of itself."""
    kind = reply.headers.get("content-type", "")
    return "html" in kind.lower() or reply.body[:200].lstrip()[:1] == b"<"


def _filter_reason(body: JSON) -> str | None:
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return None
    inner = error.get("innererror")
    inner = inner if isinstance(inner, dict) else {}
    codes = [code for code in (error.get("code"), inner.get("code")) if isinstance(code, str)]
    if not _FILTER_CODES.intersection(codes):
        return None
    for result in (inner.get("content_filter_result"), error.get("content_filter_result")):
        verdicts = result if isinstance(result, dict) else {}
        names = [name for name, each in verdicts.items() if isinstance(each, dict) and each.get("filtered") is True]
        if names:
            return ", ".join(names)
    message = error.get("message")
    return message if isinstance(message, str) else "content filter"


def answer_failure(reply: Reply, who: str, problem: str, redactor: Redactor, retry: bool = True) -> Failure:
    """The failure of a 2xx reply whose body is no answer."""
    id_ = request_id(reply.headers, redactor)
    return Failure(ReplyError(f"{who}: {problem}", status=reply.status, request_id=id_), retry)
