"""Reads texts with the tool parsers of vLLM and SGLang; run by the Python of an environment that holds both.

Neither package's own `__init__` is run: it would load an engine and look for an accelerator. What the parsers import of
the engine, and of libraries that are not installed, is answered with empty classes; they only use these in annotations.

Lines of `{"text", "tools", "parsers"}` come in, and of `{"read": {parser: calls}}` go out; without `parsers`, all are
tried.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import logging
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Calls = list[tuple[str, Any]]
Parser = Callable[[str, list[dict[str, Any]]], Calls]

_ABSENT = (
    "torch", "triton", "zmq", "xgrammar", "llguidance", "outlines", "outlines_core", "vllm_flash_attn", "psutil",
    "IPython", "prometheus_client", "uvloop", "setproctitle",
    "sglang.srt.utils", "sglang.srt.server_args", "sglang.srt.managers", "sglang.srt.configs", "sglang.srt.constrained",
    "vllm.config", "vllm.distributed", "vllm.model_executor", "vllm.platforms", "vllm.multimodal", "vllm.v1",
    "vllm.inputs", "vllm.sampling_params", "vllm.logger", "vllm.tokenizers", "vllm.transformers_utils",
    "vllm.renderers", "vllm.engine", "vllm.outputs",
)  # fmt: skip
_BARE = ("sglang", "sglang.srt", "vllm")


class _Anything(type):
    """A class that is a member of everything it is asked for."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _empty(name)

    def __or__(cls, other: object) -> Any:
        return object

    __ror__ = __or__

    def __iter__(cls) -> Iterator[Any]:
        return iter(())


def _empty(name: str) -> Any:
    def schema(*_: object) -> Any:
        return importlib.import_module("pydantic_core.core_schema").any_schema()

    body = {
        "__init__": lambda self, *a, **k: None,
        "__call__": lambda self, *a, **k: a[0] if a else self,
        "__getattr__": lambda self, key: _instance() if not key.startswith("__") else _missing(key),
        "__bool__": lambda self: False,
        "__class_getitem__": classmethod(lambda cls, _: cls),
        "__get_pydantic_core_schema__": classmethod(schema),
    }
    return _Anything(name, (), body)


def _instance() -> Any:
    return _empty("Empty")()


def _missing(key: str) -> Any:
    raise AttributeError(key)


_GIVEN: dict[str, Callable[..., object]] = {
    "init_logger": logging.getLogger,
    "make_tool_call_id": lambda *_, **__: "call_1",
    "get_tool_call_id_type": lambda *_: "random",
}
"""What parsers call, not only name."""


class _EmptyModule(types.ModuleType):
    """A module with whatever is asked of it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _GIVEN.get(name) or _empty(name)


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers the imports of what is not there."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        absent = any(name == each or name.startswith(f"{each}.") for each in _ABSENT)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if absent else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _EmptyModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None: ...


def prepare() -> None:
    """Makes the parsers' modules importable without the engines."""
    sys.meta_path.insert(0, _Absent())
    packages = Path(next(path for path in sys.path if (Path(path) / "sglang").is_dir()))
    for name in _BARE:
        module = types.ModuleType(name)
        module.__path__ = [str(packages.joinpath(*name.split(".")))]
        sys.modules[name] = module


class _Vocabulary(dict[str, int]):
    """Has every token; Mistral's before version 11 lack one."""

    def __init__(self, *lacking: str) -> None:
        super().__init__()
        self.lacking = lacking

    def get(self, token: Any, default: Any = None) -> Any:
        return default if token in self.lacking else hash(token) % 100_000

    __getitem__ = get

    def __contains__(self, token: object) -> bool:
        return token not in self.lacking


class _Tokenizer:
    """Enough of a tokenizer for parsers that look up their marks."""

    def __init__(self, *lacking: str) -> None:
        self._lacking = lacking
        self.all_special_tokens: list[str] = []
        self.bos_token = self.eos_token = ""

    def get_vocab(self) -> Any:
        return _Vocabulary(*self._lacking)

    @property
    def vocab(self) -> Any:
        return self.get_vocab()

    def encode(self, text: str, **_: object) -> list[int]:
        return [hash(text) % 100_000]

    def convert_tokens_to_ids(self, token: str) -> int:
        return hash(token) % 100_000

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def sglang_parsers() -> Iterator[tuple[str, Parser]]:
    module = importlib.import_module("sglang.srt.function_call.function_call_parser")
    protocol = importlib.import_module("sglang.srt.entrypoints.openai.protocol")

    def reading(name: str) -> Parser:
        def read(text: str, tools: list[dict[str, Any]]) -> Calls:
            if name == "gpt-oss":
                text = f"<|start|>assistant{text}<|start|>assistant"
            parser = module.FunctionCallParser([protocol.Tool(**tool) for tool in tools], name)
            _, calls = parser.parse_non_stream(text)
            return [(call.name, json.loads(call.parameters or "{}")) for call in calls]

        return read

    for name in module.FunctionCallParser.ToolCallParserEnum:
        yield f"sglang:{name}", reading(name)


def vllm_parsers() -> Iterator[tuple[str, Parser]]:
    manager = importlib.import_module("vllm.tool_parsers").ToolParserManager
    protocol = importlib.import_module("vllm.entrypoints.openai.chat_completion.protocol")

    def reading(parser_class: Any, *lacking: str) -> Parser:
        def read(text: str, tools: list[dict[str, Any]]) -> Calls:
            request = protocol.ChatCompletionRequest(model="m", messages=[], tools=tools)
            found = parser_class(_Tokenizer(*lacking), request.tools).extract_tool_calls(text, request)
            return [(call.function.name, json.loads(call.function.arguments or "{}")) for call in found.tool_calls]

        return read

    for name in sorted({*manager.lazy_parsers, *manager.tool_parsers}):
        try:
            parser_class = manager.get_tool_parser(name)
        except Exception as error:  # noqa: BLE001 - whichever it needs that is not here
            print(f"vllm:{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        yield f"vllm:{name}", reading(parser_class)
        if name == "mistral":
            yield "vllm:mistral before 11", reading(parser_class, "[ARGS]")


def all_parsers() -> dict[str, Parser]:
    """Every parser that can be had, by server and name."""
    found: dict[str, Parser] = {}
    for parsers in (sglang_parsers, vllm_parsers):
        try:
            found |= dict(parsers())
        except Exception as error:  # noqa: BLE001 - the other server's are still worth something
            print(f"{parsers.__name__}: {type(error).__name__}: {error}", file=sys.stderr)
    return found


def read_with(parsers: Mapping[str, Parser], names: Sequence[str] | None, case: Mapping[str, Any]) -> dict[str, Calls]:
    """What each of these parsers makes of a case; those that fail, or find no call, are left out."""
    read: dict[str, Calls] = {}
    for name in parsers if names is None else names:
        with contextlib.suppress(Exception):
            calls = parsers[name](case["text"], case["tools"])
            if calls:
                read[name] = calls
    return read


def main() -> None:
    """Reads the cases of standard input."""
    answers = sys.stdout
    sys.stdout = io.StringIO()  # some parsers print
    prepare()
    logging.disable(logging.CRITICAL)
    parsers = all_parsers()
    print(json.dumps({"parsers": sorted(parsers)}), file=answers, flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        read = read_with(parsers, case.get("parsers"), case)
        print(json.dumps({"read": read}), file=answers, flush=True)


if __name__ == "__main__":
    main()
