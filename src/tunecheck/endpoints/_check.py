"""Trying an endpoint out: one small request with a tool, and a report of what came back."""

from collections.abc import Mapping
from dataclasses import dataclass

from tunecheck import _errors as errors
from tunecheck._json import JSON, dumps
from tunecheck._messages import clean
from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint
from tunecheck.endpoints._target import ask

MESSAGES: tuple[Mapping[str, JSON], ...] = (
    {"role": "system", "content": "You are a helpful assistant. Use the functions you are given where they help."},
    {"role": "user", "content": "What is the weather in Lisbon, in celsius?"},
)

TOOLS: tuple[Mapping[str, JSON], ...] = (
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The current weather of a city.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                },
                "required": ["city"],
            },
        },
    },
)

_ADVICE: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    (
        (errors.RefusedError, errors.StopRunError),
        "check the auth section, that its environment variable holds a valid key, and the account's quota",
    ),
    (errors.ThrottledError, "the service is overloaded or its quota is used up: lower limits, or try later"),
    (errors.TimedOutError, "is the address right and the service awake? If it is slow by nature, raise timeout_s"),
    (errors.ContentFilterError, "the service works, but its content policy declined the sample question"),
    (errors.ReplyError, "check url and response: the path of the answer in the reply"),
    (errors.EndpointError, "check url, headers and request against the service's own documentation"),
)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What one request brought: a completion, or the error that it ended in and what to do about it."""

    endpoint: str
    kind: str
    completion: Completion | None = None
    error: errors.TunecheckError | ValueError | None = None
    advice: str = ""
    found_out: tuple[str, ...] = ()
    """What its API does not take, and what is done about it."""

    @property
    def ok(self) -> bool:
        """Whether the endpoint answered."""
        return self.completion is not None

    def lines(self) -> list[str]:
        """The report for people."""
        head = f"{self.endpoint} ({self.kind})"
        if self.completion is None:
            return [f"{head}: failed", f"  {type(self.error).__name__}: {self.error}", f"  {self.advice}"]
        return [f"{head}: answered", *(f"  {name:<12}{text}" for name, text in self._facts(self.completion) if text)]

    def _facts(self, completion: Completion) -> list[tuple[str, str]]:
        counts = (completion.usage.input_tokens, completion.usage.output_tokens)
        asked, answered = ("unknown" if count is None else str(count) for count in counts)
        return [
            ("reasoning", clean(completion.reasoning or "", 300)),
            ("text", clean(completion.text or "", 300)),
            *(("call", clean(dumps(dict(call)).decode(), 300)) for call in completion.tool_calls),
            ("latency", f"{completion.latency_ms:.0f} ms" if completion.latency_ms is not None else ""),
            ("first token", f"{completion.first_token_ms:.0f} ms" if completion.first_token_ms is not None else ""),
            ("tokens", f"{asked} in, {answered} out"),
            ("finished", completion.finish_reason or ""),
            ("request id", completion.request_id or ""),
            ("note", "simulated: no model answered" if completion.simulated else ""),
            *(("note", sentence) for sentence in self.found_out),
            ("hint", self.advice),
        ]


def advice_on(error: Exception) -> str:
    """What to do about an error that a request ended in."""
    return next((text for kind, text in _ADVICE if isinstance(error, kind)), "check the request template")


async def check_endpoint(endpoint: Endpoint) -> CheckReport:
    """Ask an endpoint one small question with a tool, and close it. Its failures are part of the report."""
    try:
        completion = await ask(endpoint, ChatRequest(messages=MESSAGES, tools=TOOLS))
    except (errors.StopRunError, errors.EndpointError, ValueError) as error:
        return CheckReport(endpoint.name, endpoint.kind, error=error, advice=advice_on(error))
    finally:
        await endpoint.close()
    advice = ""
    if not completion.tool_calls and (completion.text or "").startswith("{"):
        advice = "the answer is a JSON object; if the model's text is inside, name its place with `response:`"
    found_out = tuple(endpoint.facts.sentences())
    return CheckReport(endpoint.name, endpoint.kind, completion, advice=advice, found_out=found_out)
