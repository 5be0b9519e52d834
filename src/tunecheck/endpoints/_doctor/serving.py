"""Which program serves a model: by its list of models, headers of its replies, and addresses that only it has."""

import asyncio
import functools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, TypeAlias

import msgspec

from tunecheck._json import JSON
from tunecheck._messages import clean
from tunecheck.endpoints._http_endpoint import HttpConfig, HttpEndpoint
from tunecheck.formats._families import ServerParsers

Subject: TypeAlias = Literal["calls", "tools", "reasoning", "length", "stop"]

_UNKNOWN = ("vLLM", "SGLang", "llama.cpp")
"""The programs that advice names if none is known."""


class _Program(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A serving program, as servers.toml describes it."""

    calls: str
    tools: str
    reasoning: str
    length: str
    stop: str
    owned_by: str = ""
    header: tuple[str, str] | None = None
    pages: dict[str, list[str]] = {}
    hints: list[str] = []


@functools.cache
def _programs() -> dict[str, _Program]:
    text = files(__package__).joinpath("servers.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, _Program])


@dataclass(frozen=True, slots=True)
class Serving:
    """The program that serves a model (empty: unknown), how it was recognised, and the context length that it told."""

    program: str = ""
    told_by: str = ""
    guess: bool = False
    on_azure_ml: bool = False
    context: int | None = None

    def __str__(self) -> str:
        name = " on ".join(filter(None, (self.program, "Azure ML" * self.on_azure_ml)))
        return f"{name} ({'a guess by' if self.guess else 'by'} {self.told_by})" if self.told_by else name

    def advice(self, subject: Subject, parsers: ServerParsers | None = None) -> str:
        """Return the program's own settings for a subject; if it is not known, those of the usual programs."""
        names = (self.program,) if self.program else _UNKNOWN[:1] if self.on_azure_ml else _UNKNOWN
        said = "; ".join(filter(None, (_setting(name, subject, parsers) for name in names)))
        guess = parsers is not None and parsers.guess
        return (
            "in the deployment's environment, for " * self.on_azure_ml
            + said
            + f" (that it is {names[0]} is a guess)" * (self.guess or (self.on_azure_ml and not self.program))
            + " (a guess: several families write calls like this)" * guess
        )


def _setting(name: str, subject: Subject, parsers: ServerParsers | None) -> str:
    setting: str = getattr(_programs()[name], subject)
    if "{parser}" not in setting:
        return f"{name}: {setting}"
    parser = {"vLLM": parsers.vllm, "SGLang": parsers.sglang}[name] if parsers else "of the model's family"
    return f"{name}: {setting.format(parser=parser)}" if parser else f"{name}: it has no parser for this form"


async def find_serving(endpoint: HttpEndpoint[HttpConfig]) -> Serving:
    """Find out which program serves an endpoint that has answered; the key goes where its definition sends it only."""
    if endpoint.kind == "azure_openai":
        return Serving()
    headers = {name.lower(): value.lower() for name, value in endpoint.reply_headers().items()}
    azure = any(name.startswith("azureml-") for name in headers) or "azmlinfsrv" in headers.get(
        "x-ms-server-version", ""
    )
    cards = _cards(await endpoint.look("/models"))
    lengths = [length for card in cards if isinstance(length := card.get("max_model_len"), int) and length > 0]
    found = functools.partial(Serving, on_azure_ml=azure, context=min(lengths, default=None))
    for name, program in _programs().items():
        if program.owned_by and any(card.get("owned_by") == program.owned_by for card in cards):
            return found(name, f"owned_by: {program.owned_by} in its list of models")
        if program.header and program.header[1] in headers.get(program.header[0], ()):
            return found(name, f"its header {program.header[0]}")
    pages = {path for program in _programs().values() for path in (*program.pages, *program.hints) if path[0] == "/"}
    replies = dict(zip(pages, await asyncio.gather(*map(endpoint.look, pages)), strict=True))
    name, sign, guess = next(_signs(replies, endpoint.settings()["url"]), ("", "", False))
    return found(name, sign, guess)


def _cards(reply: JSON) -> list[dict[str, JSON]]:
    listed = reply.get("data") if isinstance(reply, dict) else None
    return [card for card in listed if isinstance(card, dict)] if isinstance(listed, list) else []


def _signs(replies: Mapping[str, JSON], url: JSON) -> Iterator[tuple[str, str, bool]]:
    """Yield the programs that addresses speak for, with the sign and whether it is a mere hint; sure ones first."""
    for name, program in _programs().items():
        for path, keys in program.pages.items():
            reply = replies[path]
            if isinstance(reply, dict) and all(key in reply for key in keys):
                yield name, f"its address {path}", False
    for name, program in _programs().items():
        for hint in program.hints:
            reply = replies.get(hint)
            if isinstance(reply, dict) and reply.keys() == {hint.strip("/")}:
                yield name, f"its address {hint}", True
            elif hint[0] == ":" and hint in clean(url):
                yield name, f"its port {hint[1:-1]}", True
