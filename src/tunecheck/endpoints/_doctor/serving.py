"""Find the program that serves a model by its list of models, reply headers and characteristic addresses."""

import asyncio
import functools
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, TypeAlias

import msgspec

from tunecheck.endpoints._http_endpoint import HttpConfig, HttpEndpoint
from tunecheck.formats._families import ServerParsers

Subject: TypeAlias = Literal["calls", "tools", "reasoning", "length", "stop"]

_UNKNOWN = ("vLLM", "SGLang", "llama.cpp")
"""The programs named in advice if the program is unknown."""


class _ProgramTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of servers.toml."""

    owners: dict[str, str]
    pages: dict[str, list[str]]
    settings: dict[str, dict[Subject, str]]


@functools.cache
def _table() -> _ProgramTable:
    return msgspec.convert(tomllib.loads(files(__package__).joinpath("servers.toml").read_text("utf-8")), _ProgramTable)


@dataclass(frozen=True, slots=True)
class Serving:
    """The program that serves a model ("" if unknown), how it was recognised, context length and models on offer."""

    program: str = ""
    told_by: str = ""
    guess: bool = False
    on_azure_ml: bool = False
    context: int | None = None
    models: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = " on ".join(filter(None, (self.program, "Azure ML" * self.on_azure_ml)))
        return f"{name} ({'guessed' if self.guess else 'known'} from {self.told_by})" if self.told_by else name

    def advice(self, subject: Subject, parsers: ServerParsers | None = None) -> str:
        """Return the program's settings for a subject, or those of common programs if the program is unknown."""
        names = (self.program,) if self.program else _UNKNOWN[:1] if self.on_azure_ml else _UNKNOWN
        known = {"vLLM": parsers.vllm, "SGLang": parsers.sglang} if parsers else {}
        said = []
        for name in names:
            parser, setting = known.get(name, "of the model's family"), _table().settings[name][subject]
            said.append(f"{name}: {setting.format(parser=parser) if parser else 'it has no parser for this form'}")
        text = "in the deployment's environment, for " * self.on_azure_ml + "; ".join(said)
        text += f" (assuming that the server is {names[0]})" * (self.guess or (self.on_azure_ml and not self.program))
        return text + " (the parser is a guess: families share this format)" * (parsers is not None and parsers.guess)


async def find_serving(endpoint: HttpEndpoint[HttpConfig]) -> Serving:
    """Find the program that serves an endpoint. Call it after an answer, whose headers are the first evidence."""
    if endpoint.kind == "azure_openai":
        return Serving()
    headers = {name.lower(): value.lower() for name, value in endpoint.reply_headers().items()}
    server = headers.get("x-ms-server-version", "")
    azure = "azmlinfsrv" in server or any(name.startswith("azureml-") for name in headers)
    cards = await endpoint.models()
    lengths = [length for card in cards if isinstance(length := card.get("max_model_len"), int) and length > 0]
    names = tuple(str(card.get("id")) for card in cards)
    found = functools.partial(Serving, on_azure_ml=azure, context=min(lengths, default=None), models=names)
    for owner in (str(card.get("owned_by")) for card in cards):
        if owner in _table().owners:
            return found(_table().owners[owner], f"owned_by: {owner} in its list of models")
    if "llama.cpp" in headers.get("server", ""):
        return found("llama.cpp", "its header server")
    if "x-compute-type" in headers:
        return found("TGI", "its header x-compute-type")
    pages = [*_table().pages.items(), ("/version", ["vLLM", "version"])]
    replies = await asyncio.gather(*(endpoint.look(path) for path, _ in pages))
    for (path, (name, *keys)), reply in zip(pages, replies, strict=True):
        is_version = path == "/version"  # a weak sign, so no other keys may be there
        if isinstance(reply, dict) and (reply.keys() == {*keys} if is_version else reply.keys() >= {*keys}):
            return found(name, f"its address {path}", is_version)
    is_port = ":11434/" in str(endpoint.settings()["url"])
    return found("Ollama", "its port 11434", guess=True) if is_port else found()
