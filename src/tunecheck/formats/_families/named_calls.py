"""Families that write a function's name and its arguments as JSON after it: `f[ARGS]{…}`."""

import re

from tunecheck.formats._families.thoughts import HARMONY, HARMONY_STRIPPED, MISTRAL, SOLAR, THINK
from tunecheck.formats._profiles import Profile
from tunecheck.formats._prompts import ToolPrompt, json_list
from tunecheck.formats._shapes import AnyOf, GlaiveCalls, JsonCalls, NamedCalls, PythonCalls, PythonTagCalls

_MISTRAL_NAME = re.compile(
    r"\s*(?P<name>[^\s\[\]{}\"]+)\s*(?:\[CALL_ID\]\s*(?P<id>[^\s\[\]{}]+)\s*)?"
    r"(?:\[ARGS\]\s*(?P<empty>(?=\Z|\[TOOL_CALLS\]))?)?\s*"
)
_LLAMA_CALL = '{"name": "{name}", "parameters": {arguments}}'
MISTRAL_CALLS = Profile(
    "mistral",
    AnyOf((NamedCalls(_MISTRAL_NAME), JsonCalls())),
    marks=("[TOOL_CALLS]",),
    closes=("[/TOOL_CALLS]",),
    thoughts=(MISTRAL, THINK),
    several=False,
    prompt=json_list("[TOOL_CALLS]", "", tools="[AVAILABLE_TOOLS][{tools}][/AVAILABLE_TOOLS]"),
)
"""All tokenizers: a list of objects (to v7), `f[CALL_ID]id[ARGS]{…}` (v11), `f[ARGS]{…}` (v13)."""

LLAMA = Profile(
    "llama",
    PythonTagCalls(),
    marks=("<|python_tag|>",),
    prompt=ToolPrompt(_LLAMA_CALL, calls="<|python_tag|>{calls}", between="; "),
)
"""Llama 3.x with built-in tools."""

LLAMA_FUNCTION = Profile(
    "llama_function",
    NamedCalls(re.compile(r"<function=(?P<name>[^<>\s]+)>\s*+(?=\{)"), last=re.compile(r"\s*+</function>")),
    marks=("<function=",),
    inside=True,
    sure=False,
    prompt=ToolPrompt("<function={name}>{arguments}</function>"),
)
"""Llama 3.1's custom calls, Functionary v3.1."""

DEEPSEEK = Profile(
    "deepseek_v3",
    NamedCalls(
        re.compile(
            r"<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?(?P<name>[^\n<]+?)(?:<｜tool▁sep｜>|\n(?:```json)?)\s*+"
        ),
        "<｜tool▁call▁begin｜>",
        re.compile(r"(?:\s*+```)?(?:\s*+<｜tool▁call▁end｜>)?"),
    ),
    marks=("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"),
    inner=("<｜tool▁call▁begin｜>",),
    closes=("<｜tool▁calls▁end｜>",),
    thoughts=(THINK,),
    prompt=ToolPrompt(
        "<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>",
        calls="<｜tool▁calls▁begin｜>{calls}<｜tool▁calls▁end｜>",
        between="",
    ),
)
"""DeepSeek V3, R1 and V3.1."""

KIMI_K2 = Profile(
    "kimi_k2",
    NamedCalls(
        re.compile(
            r"<\|tool_call_begin\|>\s*+(?P<id>(?:functions\.)?(?P<name>[^<\s]+?)(?::\d+)?)\s*+"
            r"<\|tool_call_argument_begin\|>\s*+"
        ),
        "<|tool_call_begin|>",
        re.compile(r"\s*+<\|tool_call_end\|>"),
    ),
    marks=("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>", "<|tool_call_begin|>"),
    inner=("<|tool_call_begin|>",),
    closes=("<|tool_calls_section_end|>", "<|tool_call_section_end|>"),
    thoughts=(THINK,),
    prompt=ToolPrompt(
        "<|tool_call_begin|>functions.{name}:{index}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>",
        calls="<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>",
        between="",
    ),
)
SOLAR_OPEN = Profile(
    "solar",
    NamedCalls(
        re.compile(r"<\|tool_call:begin\|>(?P<id>[^<]*+)<\|tool_call:name\|>(?P<name>[^<]+)<\|tool_call:args\|>\s*+"),
        "<|tool_call:begin|>",
        re.compile(r"\s*+<\|tool_call:end\|>"),
    ),
    marks=("<|tool_calls|>", "<|tool_call:begin|>"),
    inner=("<|tool_call:begin|>",),
    closes=("<|calls|>",),
    thoughts=(SOLAR,),
    prompt=ToolPrompt(
        "<|tool_call:begin|>{index}<|tool_call:name|>{name}<|tool_call:args|>{arguments}<|tool_call:end|>",
        calls="<|tool_calls|>{calls}",
        between="",
    ),
)
HARMONY_CALLS = Profile(
    "harmony",
    NamedCalls(
        re.compile(
            r"to=functions\.(?P<name>[\w.-]+?)(?:commentary|analysis)?\s*+(?:<\|channel\|>\w+)?\s*+"
            r"(?:<\|constrain\|>)?\s*+(?:json|code)?\s*+(?:<\|message\|>)?\s*+(?=\{)"
        ),
        "to=functions.",
        re.compile(r"\s*+<\|(?:call|end)\|>"),
    ),
    marks=("to=functions.",),
    thoughts=(HARMONY, HARMONY_STRIPPED),
    inside=True,
    prompt=ToolPrompt(
        "<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>",
        between="<|start|>assistant",
    ),
)
"""gpt-oss."""

FUNCTIONARY = Profile(
    "functionary",
    NamedCalls(
        re.compile(
            r"(?:(?:all\n.*?)?(?:>>>|<\|from\|>assistant\n<\|recipient\|>))?"
            r"(?P<name>[^\s{}<>|]+)\n(?:<\|content\|>)?\s*+(?=\{)",
            re.DOTALL,
        )
    ),
    thoughts=(THINK,),
    prompt=ToolPrompt(">>>{name}\n{arguments}", between=""),
)
"""Functionary v2 and v3.2."""

QWEN_AGENT = Profile(
    "qwen_agent",
    NamedCalls(
        re.compile(r"✿FUNCTION✿:[ \t]*+(?P<name>\S+)\s*+✿ARGS✿:\s*+(?P<empty>(?=\Z|✿))?"),
        "✿FUNCTION✿",
        re.compile(r"(?:\s*+✿(?:RESULT|RETURN)✿:?)?"),
    ),
    marks=("✿FUNCTION✿",),
    inside=True,
    prompt=ToolPrompt("✿FUNCTION✿: {name}\n✿ARGS✿: {arguments}", result="✿RESULT✿: {result}"),
)
"""Qwen2 and its like in Qwen-Agent's own prompt."""

REACT = Profile(
    "react",
    NamedCalls(
        re.compile(
            r"Action[ \t]*:[ \t]*(?P<name>[^\s()]{1,160}+)[ \t]*+\n\s*+"
            r"Action[ _]Input[ \t]*:\s*+(?:```(?:json)?\s*+)?(?=\{)"
        ),
        last=re.compile(r".*", re.DOTALL),  # what follows is what the model thinks the tool would say
    ),
    marks=("Action:",),
    thoughts=(THINK,),
    inside=True,
    sure=False,
    prompt=ToolPrompt("Action: {name}\nAction Input: {arguments}", result="Observation: {result}"),
)
"""Agents that think aloud and call once in an answer; chosen by name, for unchosen it takes the names of tools."""

GLAIVE = Profile(
    "glaive",
    AnyOf((GlaiveCalls(), PythonCalls())),
    marks=("<functioncall>",),
    closes=("</functioncall>",),
    several=False,
    prompt=ToolPrompt(
        '<functioncall> {"name": "{name}", "arguments": \'{arguments}\'}', result="FUNCTION RESPONSE: {result}"
    ),
)

PROFILES = (
    *(GLAIVE, MISTRAL_CALLS, LLAMA, LLAMA_FUNCTION, DEEPSEEK, KIMI_K2, SOLAR_OPEN, HARMONY_CALLS),
    *(FUNCTIONARY, QWEN_AGENT),
)
