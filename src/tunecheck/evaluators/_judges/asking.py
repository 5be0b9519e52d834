"""Asks a model for judgements, retries once if a reply is unreadable, and combines several samples into one.

The model is an endpoint, its definition, or a model configuration of Azure AI Evaluation:

    {"kind": "openai", "url": "https://…", "model": "gpt-4o"}                                  a definition
    {"azure_endpoint": "https://…", "azure_deployment": "gpt-4o", "api_key": "…"}              Azure's configuration
    {"type": "openai", "model": "gpt-4o", "api_key": "…"}                                      OpenAI's configuration

One judgement takes these steps (`JudgeClient.judge`):

1. Ask, and read the reply.
2. If the model declined to judge, stop with JudgeRefusalError.
3. If the reply is unreadable, show it to the model, say why, and ask once more.

Several samples of a row are combined by their mean or by majority (`combine_judgements`).
"""

from __future__ import annotations

import concurrent.futures
import math
import os
import threading
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import msgspec

from tunecheck._describe import Written, read_as
from tunecheck._errors import ConfigurationError, EndpointError
from tunecheck._faults import CUT_OFF, refuses, repeats_itself
from tunecheck._json import JSON, text_or_json
from tunecheck._loops import LoopThread
from tunecheck._messages import clean, cut_middle
from tunecheck.endpoints._api_facts import FORMAT
from tunecheck.endpoints._base import ChatRequest, Completion, Endpoint, ModelCalls
from tunecheck.endpoints._definition import load_endpoint, read_definition
from tunecheck.endpoints._masking import ENV_REFERENCE, Secret, looks_secret
from tunecheck.evaluators._judges.answer import AnswerForm, JudgeAnswer, JudgementError, JudgeRefusalError
from tunecheck.pipeline._row_causes import reply_cause
from tunecheck.prompts._front_matter import Combine, Name
from tunecheck.prompts._prompt import AZURE, OPENAI, OPENAI_URL, definition_of

if TYPE_CHECKING:
    from tunecheck.prompts._prompt import Prompt

# -- the model

ModelConfig: TypeAlias = Endpoint | Mapping[str, object] | str | os.PathLike[str]
"""An endpoint; the mapping, file or name of its definition; Azure's `AzureOpenAIModelConfiguration` or
`OpenAIModelConfiguration`."""


class _Configuration(Written, frozen=True, kw_only=True):
    """The common keys of Azure AI Evaluation's two model configurations."""

    api_key: str | None = None
    extra_headers: dict[Name, Name] | None = None


class _AzureConfiguration(_Configuration, frozen=True, kw_only=True):
    """The keys of Azure AI Evaluation's `AzureOpenAIModelConfiguration`."""

    type: Literal["azure_openai"] = "azure_openai"
    azure_endpoint: Name
    azure_deployment: Name
    api_version: str | None = None
    credential: Any = None


class _OpenAIConfiguration(_Configuration, frozen=True, kw_only=True):
    """The keys of Azure AI Evaluation's `OpenAIModelConfiguration`."""

    type: Literal["openai"] = "openai"
    model: Name
    base_url: str | None = None
    organization: str | None = None


_API_VERSION = "2024-02-15-preview"
"""The version that Azure AI Evaluation uses if a configuration names none."""

_AZURE_KEYS = {"azure_endpoint", "azure_deployment"}  # without a `type`, these keys show that it is Azure's
_MODEL_KEYS = ("model", "deployment")  # of endpoint settings


def judge_endpoint(model: ModelConfig | None, prompt: Prompt | None = None) -> Endpoint:
    """Return the endpoint that a judge asks: the given one, else the one in the prompt's own configuration.

    A model configuration is not changed.

    Raises:
        ConfigurationError: no model is given, or its configuration is invalid.
    """
    if isinstance(model, Endpoint):
        return model
    if isinstance(model, Mapping):
        return _endpoint_of_mapping(model)
    if isinstance(model, (str, os.PathLike)):
        return load_endpoint(os.fspath(model))

    if model is not None:
        kinds = "an endpoint, its definition or a model configuration"
        raise ConfigurationError(f"model_config must be {kinds}, not of type {type(model).__name__}")

    # Without a given model, the prompt's own configuration decides.
    own = None if prompt is None else prompt.model_definition()
    if own is None:
        advice = "name one with --judge ENDPOINT (model_config=…), or in `model.configuration` of the judge's prompt"
        raise ConfigurationError(f"a judge needs a model: {advice}")
    return load_endpoint(own, name=model_name_in(own))


def model_name(endpoint: Endpoint) -> str:
    """Return the model or deployment that the endpoint's settings name, else the endpoint's name."""
    return model_name_in(endpoint.settings()) or endpoint.name


def model_name_in(settings: Mapping[str, JSON]) -> str | None:
    """Return the model or deployment that the settings name, or None."""
    return next((value for key in _MODEL_KEYS if isinstance(value := settings.get(key), str) and value), None)


# -- model configurations of Azure AI Evaluation


def _endpoint_of_mapping(config: Mapping[str, object]) -> Endpoint:
    """Make an endpoint from its definition, or from one of Azure AI Evaluation's two model configurations.

    Raises:
        ConfigurationError: a key of the mapping is unknown, missing or has an invalid value; the message names it.
    """
    from tunecheck.endpoints._chat import AzureOpenAIEndpoint, OpenAIEndpoint

    # Only definitions of endpoints have a `kind`.
    if "kind" in config:
        return load_endpoint(config)

    has_azure_keys = "type" not in config and _AZURE_KEYS & config.keys()
    if config.get("type") == AZURE or has_azure_keys:
        read = read_as({**config}, _AzureConfiguration, "model_config")
        name = read.azure_deployment.strip()
        # `key` and the `plain` headers may be stored, `given_key` and the `hidden` headers are secret.
        key, plain, given_key, hidden = _divide_secrets(read.api_key, read.extra_headers or {})
        definition = definition_of(
            AZURE,
            read.azure_endpoint.strip(),
            name,
            api_version=read.api_version or _API_VERSION,
            key=key,
            entra=key is None and given_key is None,
            headers=plain,
        )
        # The credential is checked at the first request for a token.
        made = read_definition(definition, name=name)
        return AzureOpenAIEndpoint(made, credential=read.credential, key=given_key, secret_headers=hidden)

    given = read_as({**config}, _OpenAIConfiguration, "model_config")
    name = given.model.strip()
    organization = {"OpenAI-Organization": given.organization} if given.organization else {}
    key, plain, given_key, hidden = _divide_secrets(given.api_key, organization | (given.extra_headers or {}))
    definition = definition_of(OPENAI, given.base_url or OPENAI_URL, name, key=key, headers=plain)
    return OpenAIEndpoint(read_definition(definition, name=name), key=given_key, secret_headers=hidden)


def _divide_secrets(
    key: str | None, headers: Mapping[str, str]
) -> tuple[str | None, dict[str, str], Secret | None, dict[str, Secret]]:
    """Separate the secrets of a model configuration from its key and headers that may be shown.

    Return the key and the headers for the definition, then the secret key and headers, which are only sent. A key that
    is secret is None in the definition. References to environment variables are no secrets.
    """
    hidden = {
        name: _secret(value)
        for name, value in headers.items()
        if looks_secret(name, value) and not ENV_REFERENCE.search(value)
    }
    plain = {name: value for name, value in headers.items() if name not in hidden}

    key = key.strip() if key else None
    # A key that refers to the environment can stand in the definition, because only its name is stored.
    if not key or ENV_REFERENCE.fullmatch(key):
        return key or None, plain, None, hidden
    return None, plain, _secret(key), hidden


def _secret(text: str) -> Secret:
    """Return the text as a secret; raise ConfigurationError if it cannot be a header's value."""
    if not text.isascii() or not text.isprintable():
        raise ConfigurationError("model_config: `api_key` and secret headers must be printable ASCII text")
    return Secret(text)


# -- requests and repairs

_MOST_REPEATED = 4_000
"""Maximum number of characters of an unreadable reply in the request for its repair."""
_MOST_SHOWN = 320  # characters of a reply in an error

_CLOSING_S = 5.0  # seconds to wait for the end of a judge's thread

T = TypeVar("T")
Message = Mapping[str, JSON]


class Judgement(msgspec.Struct, frozen=True):
    """A valid answer and its completions: one, or two if the first reply had to be repaired."""

    answer: JudgeAnswer
    completions: tuple[Completion, ...]


class JudgeClient:
    """Asks one endpoint for judgements of one form; safe for concurrent use, also from several threads."""

    def __init__(self, endpoint: Endpoint, form: AnswerForm, parameters: Mapping[str, JSON]) -> None:
        """Set the parameters of requests. They contain the form's `response_format` if the endpoint supports it."""
        from tunecheck.endpoints._chat import ChatEndpoint

        self._endpoint = endpoint
        self._form = form
        self.parameters = dict(parameters)
        # Only the chat completions protocol has `response_format`.
        if FORMAT not in parameters and form.format is not None and isinstance(endpoint, ChatEndpoint):
            self.parameters[FORMAT] = form.format

    async def judge(self, calls: ModelCalls, messages: Sequence[Message], sample: int) -> Judgement:
        """Ask for one judgement. If the reply cannot be read, tell the judge why and ask once more.

        Raises:
            JudgementError: neither the reply nor its repair is a judgement; the text contains the shortened reply.
            JudgeRefusalError: the model refused to judge.
            EndpointError: the call failed for good.
        """
        first = await self._ask(calls, messages, sample)
        answer, problem = self._read(first)
        if answer is not None:
            return Judgement(answer, (first,))

        text = first.text or ""
        # A model that declined is not asked again.
        if refuses(text):
            refusal = f"the judge refused to judge this row (change its prompt or model): {_shown(text)}"
            raise _with_cause(JudgeRefusalError(refusal), first, "refusal")

        second = await self._ask(calls, [*messages, *self._repair(text, problem)], sample)
        answer, second_problem = self._read(second)
        if answer is not None:
            return Judgement(answer, (first, second))

        error = JudgementError(
            f"the judge's reply cannot be read: {problem} (when asked again: {second_problem}); "
            f"change its prompt, parameters or model; the first reply is: {_shown(text) or '(nothing)'}"
        )
        raise _with_cause(error, second, reply_cause(second.columns()))

    async def _ask(self, calls: ModelCalls, messages: Sequence[Message], sample: int) -> Completion:
        """Send the messages with the prompt's parameters; `sample` tells repeated requests for the same row apart."""
        request = ChatRequest(messages, parameters=self.parameters, may_raise_limit=True)
        return await calls.complete(self._endpoint, request, sample=sample)

    def _read(self, completion: Completion) -> tuple[JudgeAnswer | None, str]:
        """Return the answer in a reply and "", or None and the reason for which the reply cannot be read."""
        try:
            return self._form.read("\n".join(_reply_texts(completion))), ""
        except JudgementError as error:
            if completion.finish_reason not in CUT_OFF:
                return None, str(error)
            # The cause of a cut-off reply is the limit, not its syntax.
            repeating = ", repeating itself" if repeats_itself((completion.text or "").rstrip()) else ""
            return None, f"the reply was cut off at the limit of tokens{repeating} ({error})"

    def _repair(self, text: str, problem: str) -> list[Message]:
        """Return the messages that show the judge its unreadable reply and ask for the judgement again."""
        keys = ", ".join(f'"{key}"' for key in self._form.order)
        shorter = " Keep it short: at most two sentences." if problem.startswith("the reply was cut off") else ""

        request: Message = {
            "role": "user",
            "content": f"Your reply could not be used: {problem}. Give your judgement again as one JSON object with "
            f"the keys {keys}, and nothing else: no other text, no code fence.{shorter}",
        }

        # An empty reply is not sent back as an empty message.
        if not text.strip():
            return [request]
        return [{"role": "assistant", "content": text[:_MOST_REPEATED]}, request]


def _shown(text: str) -> str:
    """Return a reply as one line for an error, without its middle if it is long."""
    return cut_middle(clean(text, len(text) + 1), _MOST_SHOWN)


def _with_cause(error: JudgementError, reply: Completion, cause: str) -> JudgementError:
    """Add the reply's request id and the cause to the error, and return it."""
    error.request_id, error.cause = reply.request_id, cause
    return error


def _reply_texts(completion: Completion) -> Iterator[str]:
    """Yield the text of a reply and the arguments of its function calls, because some models answer by a call."""
    if completion.text:
        yield completion.text
    for call in completion.tool_calls:
        function = call.get("function")
        yield text_or_json(function.get("arguments") if isinstance(function, dict) else None)


# -- several judgements of one row made one


class Combined(msgspec.Struct, frozen=True):
    """The combined result of several judgements.

    `score` is None if there is nothing to judge. `typical` is the judgement that supplies the reason. `spread` is the
    population standard deviation for a mean, or the share of votes against the majority; None for one judgement or
    without a score. `votes` counts the scores of a majority as they were written; otherwise it is None.
    """

    score: float | None
    typical: Judgement
    spread: float | None
    votes: dict[str, int] | None


def combine_judgements(judgements: Sequence[Judgement], combine: Combine, *, higher_is_better: bool) -> Combined:
    """Combine at least one judgement of a row into one result by "mean" or "majority".

    If more than half of the judgements find nothing to judge, the score is None. A tie goes to the worse score. For the
    scores 1, 1 and 4, the mean is 2 with a spread of 1.41, and the majority is 1 with a spread of 1/3.
    """
    scored = [(judgement.answer.score, judgement) for judgement in judgements if judgement.answer.score is not None]
    if 2 * len(scored) < len(judgements) or not scored:
        not_judged = next(judgement for judgement in judgements if judgement.answer.score is None)
        return Combined(None, not_judged, None, None)

    if len(judgements) == 1:
        return Combined(scored[0][0], scored[0][1], None, None)

    scores = [score for score, _ in scored]

    if combine == "mean":
        mean = math.fsum(scores) / len(scores)
        spread = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / len(scores))
        # The reason comes from the judgement nearest to the mean.
        typical = min(scored, key=lambda item: abs(item[0] - mean))[1]
        return Combined(mean, typical, spread, None)

    counts = Counter(scores)
    worse = -1 if higher_is_better else 1  # a tie goes to the worse score
    winner = max(counts, key=lambda score: (counts[score], worse * score))
    typical = next(judgement for score, judgement in scored if score == winner)

    votes = Counter(text_or_json(judgement.answer.written_score) for _, judgement in scored)
    return Combined(winner, typical, 1 - counts[winner] / len(scores), dict(votes))


def tokens_of(completions: Sequence[Completion]) -> dict[str, JSON]:
    """Return the input and output tokens of all calls together; a count is None if a call did not report it."""
    tokens: dict[str, JSON] = {}
    for name in ("input_tokens", "output_tokens"):
        counts = [getattr(completion.usage, name) for completion in completions]
        tokens[name] = sum(counts) if all(count is not None for count in counts) else None
    return tokens


# -- judging outside of a run


class JudgeLoop:
    """Runs coroutines for callers in any thread, including threads with a running event loop (a notebook).

    The thread starts with the first call and ends with `close`, with the owner, or with the process; `at_end` is
    awaited first, to close connections.
    """

    def __init__(self, at_end: Callable[[], Awaitable[None]]) -> None:
        """Prepare a loop without starting its thread; `at_end` is awaited in the loop before the thread ends."""
        self._at_end = at_end
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None
        self._end: weakref.finalize[Any, Any] | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine in the loop's thread, wait for it, and return its result.

        Raises:
            EndpointError: `close` was called in the meantime.
        """
        future = self._started_loop().submit(work)

        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise EndpointError("close() cancelled calls of this evaluator or flow: wait for them first") from None
        except BaseException:  # noqa: BLE001 - Ctrl-C while waiting: the answer is no longer needed
            future.cancel()
            raise

    def close(self) -> None:
        """Close connections and end the thread; a later call starts a new one."""
        with self._lock:  # held until the thread has ended, so that other callers wait for the end
            if self._end is not None:
                self._end()
            self._end = self._thread = None

    def _started_loop(self) -> LoopThread:
        """Return the running loop; start a thread for it if there is none, also in a forked process."""
        with self._lock:
            if self._thread is None or not self._thread.thread.is_alive():  # a forked process does not have this thread
                self._thread = LoopThread("tunecheck-judge")
                # Not a bound method, which would keep this object alive.
                self._end = weakref.finalize(self, _finish, self._thread, self._at_end)
            return self._thread


def _finish(loop: LoopThread, at_end: Callable[[], Awaitable[None]]) -> None:
    """Await `at_end` in the loop, end its thread, and wait up to 5 s for the end, unless called in that thread."""
    loop.end(at_end)
    if threading.current_thread() is not loop.thread:  # else the object was garbage-collected in its own thread
        concurrent.futures.wait([loop.ended], _CLOSING_S)
