"""Families that write calls as JSON objects behind a mark: `<tool_call>{"name": "f", "arguments": {…}}</tool_call>`."""

from tunecheck.formats._families.thoughts import APERTUS, APRIEL, COMMAND, LONGCAT, THINK
from tunecheck.formats._profiles import Profile
from tunecheck.formats._prompts import json_list, json_objects
from tunecheck.formats._shapes import JsonCalls

_OBJECTS = JsonCalls()

HERMES = Profile(
    "hermes",
    _OBJECTS,
    marks=("<tool_call>",),
    closes=("</tool_call>",),
    thoughts=(THINK,),
    closed=True,
    prompt=json_objects("<tool_call>\n", "\n</tool_call>"),
)
"""Hermes, Qwen2.5 and 3, QwQ, Granite 4, SmolLM3, MiMo, Bielik, Reka, ERNIE."""

LONGCAT_FLASH = Profile(
    "longcat",
    _OBJECTS,
    marks=("<longcat_tool_call>",),
    closes=("</longcat_tool_call>",),
    thoughts=(LONGCAT,),
    prompt=json_objects("<longcat_tool_call>", "</longcat_tool_call>"),
)
GRANITE = Profile(
    "granite",
    _OBJECTS,
    marks=("<|tool_call|>", "<tool_call>"),
    closes=("<|/tool_call|>", "</|tool_call|>"),
    thoughts=(THINK,),
    prompt=json_list("<|tool_call|>", ""),
)
"""Granite 3; Phi-4 in newer templates."""

GRANITE_20B = Profile(
    "granite_20b",
    _OBJECTS,
    marks=("<function_call>",),
    closes=("</function_call>",),
    prompt=json_objects("<function_call> ", ""),
)
PHI4 = Profile(
    "phi4",
    _OBJECTS,
    marks=("functools", "<|tool_call|>"),
    closes=("<|/tool_call|>",),
    sure=False,
    prompt=json_list("functools", "", tools="<|tool|>[{tools}]<|/tool|>"),
)
"""Phi-4-mini, Firefunction v2."""

COMMAND_R = Profile(
    "command_r",
    _OBJECTS,
    marks=("Action:\n```json", "Action: ```json", "Action:```json"),
    closes=("```",),
    sure=False,
    prompt=json_list("Action: ```json\n", "\n```", call='{"tool_name": "{name}", "parameters": {arguments}}'),
)
"""Command R and R+."""

COMMAND_R7B = Profile(
    "command_r7b",
    _OBJECTS,
    marks=("<|START_ACTION|>",),
    closes=("<|END_ACTION|>",),
    thoughts=(COMMAND,),
    prompt=json_list(
        "<|START_ACTION|>",
        "<|END_ACTION|>",
        call='{"tool_call_id": "{index}", "tool_name": "{name}", "parameters": {arguments}}',
    ),
)
"""Command R7B, A and A Reasoning."""

JAMBA = Profile(
    "jamba",
    _OBJECTS,
    marks=("<tool_calls>",),
    closes=("</tool_calls>",),
    thoughts=(THINK, APRIEL),
    prompt=json_list("<tool_calls>", "</tool_calls>"),
)
"""Jamba, Hunyuan A13B, Apriel, MiniMax M1."""

NEMOTRON = Profile(
    "nemotron",
    _OBJECTS,
    marks=("<TOOLCALL>",),
    closes=("</TOOLCALL>",),
    thoughts=(THINK,),
    prompt=json_list("<TOOLCALL>", "</TOOLCALL>", tools="<AVAILABLE_TOOLS>[{tools}]</AVAILABLE_TOOLS>"),
)
INTERNLM = Profile(
    "internlm",
    _OBJECTS,
    marks=("<|action_start|><|plugin|>", "<|action_start|> <|plugin|>"),
    closes=("<|action_end|>",),
    thoughts=(THINK,),
    prompt=json_objects("<|action_start|><|plugin|>\n", "<|action_end|>"),
)
APERTUS_SWISS = Profile(
    "apertus",
    JsonCalls(keyed=True),
    marks=("<|tools_prefix|>",),
    closes=("<|tools_suffix|>",),
    thoughts=(APERTUS,),
    prompt=json_list("<|tools_prefix|>", "<|tools_suffix|>", call='{"{name}": {arguments}}'),
)
GIGACHAT = Profile(
    "gigachat",
    _OBJECTS,
    marks=("<|function_call|>", "function call<|role_sep|>"),
    prompt=json_objects("<|function_call|>", ""),
)
QWEN_CODER_TOOLS = Profile(
    "qwen2.5_coder",
    _OBJECTS,
    marks=("<tools>",),
    closes=("</tools>",),
    sure=False,
    prompt=json_objects("<tools>\n", "\n</tools>"),
)

PROFILES = (
    *(HERMES, LONGCAT_FLASH, GRANITE, GRANITE_20B, PHI4, COMMAND_R, COMMAND_R7B, JAMBA, NEMOTRON, INTERNLM),
    *(APERTUS_SWISS, GIGACHAT, QWEN_CODER_TOOLS),
)
