"""Families that write arguments between tags, mostly without types: `<parameter=city>Paris</parameter>`."""

import re

from tunecheck.formats._families.thoughts import GEMMA, HUNYUAN, KIMI_K3, MINIMAX, MUSE, SEED, THINK
from tunecheck.formats._profiles import Profile
from tunecheck.formats._prompts import Braced, Elements, ToolPrompt
from tunecheck.formats._shapes import AnyOf
from tunecheck.formats._tagged import BracedCalls, TaggedCalls, TreeCalls

_FUNCTION = re.compile(r"<function=(?P<name>[^>\n]+)>")
_FUNCTION_END = re.compile("</function>")
_PARAMETER = re.compile(r"<parameter=(?P<key>[^>\n]+)>")
_INVOKE = re.compile(r"<invoke name=[\"'](?P<name>[^\"'\n]+)[\"']>")
_INVOKE_END = re.compile("</invoke>")
_INVOKE_CALL = '<invoke name="{name}">\n{parameters}\n</invoke>'
_INVOKE_PARAMETER = '<parameter name="{key}">{value}</parameter>'
_NAMED_PARAMETER = re.compile(r"<parameter name=[\"'](?P<key>[^\"'\n]+)[\"'][^>\n]*>")

QWEN3_CODER = Profile(
    "qwen3_coder",
    TaggedCalls(_FUNCTION, _FUNCTION_END, _PARAMETER, "</parameter>", first="<function=", framed=True),
    marks=("<tool_call>", "<function="),
    closes=("</tool_call>",),
    thoughts=(THINK,),
    inner=("<function=",),  # these models forget the outer mark at times
    prompt=ToolPrompt(
        "<tool_call>\n<function={name}>\n{parameters}\n</function>\n</tool_call>",
        "<parameter={key}>\n{value}\n</parameter>",
    ),
)
"""Qwen3-Coder, Qwen3.5, Nemotron 3, Step-3.5."""

SEED_OSS = Profile(
    "seed_oss",
    TaggedCalls(_FUNCTION, _FUNCTION_END, _PARAMETER, "</parameter>", first="<function="),
    marks=("<seed:tool_call>",),
    closes=("</seed:tool_call>",),
    thoughts=(SEED,),
    prompt=ToolPrompt(
        "<seed:tool_call>\n<function={name}>\n{parameters}\n</function>\n</seed:tool_call>",
        "<parameter={key}>{value}</parameter>",
    ),
)
GLM = Profile(
    "glm",
    TaggedCalls(
        re.compile(r"(?P<name>[^\s<{\[]+)\s*+(?=<arg_key>)"),
        re.compile("</tool_call>"),
        re.compile(r"<arg_key>(?P<key>[^<]*+)</arg_key>\s*+<arg_value>"),
        "</arg_value>",
        empty=re.compile(r"(?P<name>[^\s<{\[]+)\s*+(?=</tool_call>)"),
    ),
    marks=("<tool_call>",),
    thoughts=(THINK,),
    several=False,
    prompt=ToolPrompt(
        "<tool_call>{name}\n{parameters}\n</tool_call>", "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>"
    ),
)
"""GLM-4.5, 4.6 and 4.7, Ling 3, Laguna, Spark 2.5."""

HUNYUAN_3 = Profile(
    "hunyuan_3",
    TaggedCalls(
        re.compile(r"<tool_call:opensource>\s*+(?P<name>[^\s<]+)\s*+(?:<tool_sep:opensource>)?"),
        re.compile("</tool_call:opensource>"),
        re.compile(r"<arg_key:opensource>(?P<key>[^<]*+)</arg_key:opensource>\s*+<arg_value:opensource>"),
        "</arg_value:opensource>",
        first="<tool_call:opensource>",
    ),
    marks=("<tool_calls:opensource>", "<tool_call:opensource>"),
    inner=("<tool_call:opensource>",),
    closes=("</tool_calls:opensource>",),
    thoughts=(HUNYUAN,),
    prompt=ToolPrompt(
        "<tool_call:opensource>{name}<tool_sep:opensource>\n{parameters}\n</tool_call:opensource>",
        "<arg_key:opensource>{key}</arg_key:opensource>\n<arg_value:opensource>{value}</arg_value:opensource>",
        calls="<tool_calls:opensource>\n{calls}\n</tool_calls:opensource>",
    ),
)
MINIMAX_M2 = Profile(
    "minimax_m2",
    TaggedCalls(_INVOKE, _INVOKE_END, _NAMED_PARAMETER, "</parameter>", first="<invoke"),
    marks=("<minimax:tool_call>",),
    closes=("</minimax:tool_call>",),
    thoughts=(THINK,),
    prompt=ToolPrompt(_INVOKE_CALL, _INVOKE_PARAMETER, calls="<minimax:tool_call>\n{calls}\n</minimax:tool_call>"),
)
INVOKE = Profile(
    "invoke",
    AnyOf(
        (
            TaggedCalls(_INVOKE, _INVOKE_END, _NAMED_PARAMETER, "</parameter>", first="<invoke name="),
            TreeCalls(
                "",
                re.compile(r"<invoke>\s*+<tool_name>\s*+(?P<name>[^<]+?)\s*+</tool_name>\s*+<parameters>"),
                "</parameters>",
                re.compile(r"\s*+</invoke>"),
            ),
        )
    ),
    marks=("<function_calls>", "<invoke name=", "<invoke>"),
    inner=("<invoke name=", "<invoke>"),
    closes=("</function_calls>",),
    sure=False,
    prompt=ToolPrompt(_INVOKE_CALL, _INVOKE_PARAMETER, calls="<function_calls>\n{calls}\n</function_calls>"),
)
"""Claude's own text, since Claude 3 and before, and whoever learnt from it."""

MINIMAX_M3 = Profile(
    "minimax_m3",
    TreeCalls(
        "]<]minimax[>[", re.compile(r"\]<\]minimax\[>\[<invoke name=\"(?P<name>[^\"\n]+)\">"), "]<]minimax[>[</invoke>"
    ),
    marks=("]<]minimax[>[<tool_call>",),
    closes=("]<]minimax[>[</tool_call>",),
    thoughts=(MINIMAX,),
    prompt=ToolPrompt(
        ']<]minimax[>[<invoke name="{name}">{parameters}]<]minimax[>[</invoke>',
        "]<]minimax[>[<{key}>{value}]<]minimax[>[</{key}>",
        "",
        "]<]minimax[>[<tool_call>\n{calls}\n]<]minimax[>[</tool_call>",
        nested=Elements("]<]minimax[>["),
    ),
)
DSML = Profile(
    "deepseek_v32",
    TaggedCalls(
        re.compile(r"<｜DSML｜invoke name=\"(?P<name>[^\"\n]+)\">"),
        re.compile("</｜DSML｜invoke>"),
        re.compile(r"<｜DSML｜parameter name=\"(?P<key>[^\"\n]+)\" string=\"(?P<kind>true|false)\">"),
        "</｜DSML｜parameter>",
        first="<｜DSML｜invoke",
    ),
    marks=("<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"),
    closes=("</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"),
    thoughts=(THINK,),
    prompt=ToolPrompt(
        '<｜DSML｜invoke name="{name}">\n{parameters}\n</｜DSML｜invoke>',
        '<｜DSML｜parameter name="{key}" string="{is_text}">{value}</｜DSML｜parameter>',
        calls="<｜DSML｜function_calls>\n{calls}\n</｜DSML｜function_calls>",
    ),
)
"""DeepSeek V3.2 and V4."""

KIMI_K3_CALLS = Profile(
    "kimi_k3",
    TaggedCalls(
        re.compile(r"<\|open\|>call tool=\"(?P<name>[^\"\n]+)\"[^<]*+<\|sep\|>"),
        re.compile(r"<\|close\|>call<\|sep\|>"),
        re.compile(r"<\|open\|>argument key=\"(?P<key>[^\"\n]+)\" type=\"(?P<kind>\w+)\"<\|sep\|>"),
        "<|close|>argument<|sep|>",
        first="<|open|>call",
    ),
    marks=("<|open|>tools<|sep|>",),
    closes=("<|close|>tools<|sep|>",),
    thoughts=(KIMI_K3,),
    prompt=ToolPrompt(
        '<|open|>call tool="{name}" index="{index}"<|sep|>{parameters}<|close|>call<|sep|>',
        '<|open|>argument key="{key}" type="{type}"<|sep|>{value}<|close|>argument<|sep|>',
        "",
        "<|open|>tools<|sep|>{calls}<|close|>tools<|sep|>",
        "",
    ),
)
STEP_3 = Profile(
    "step_3",
    TaggedCalls(
        re.compile(r"<｜tool_call_begin｜>function<｜tool_sep｜>\s*+<steptml:invoke name=\"(?P<name>[^\"\n]+)\">"),
        re.compile(r"</steptml:invoke>(?:\s*+<｜tool_call_end｜>)?"),
        re.compile(r"<steptml:parameter name=\"(?P<key>[^\"\n]+)\">"),
        "</steptml:parameter>",
        first="<｜tool_call_begin｜>",
    ),
    marks=("<｜tool_calls_begin｜>",),
    closes=("<｜tool_calls_end｜>",),
    thoughts=(THINK,),
    prompt=ToolPrompt(
        '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">\n{parameters}\n</steptml:invoke>'
        "<｜tool_call_end｜>",
        '<steptml:parameter name="{key}">{value}</steptml:parameter>',
        calls="<｜tool_calls_begin｜>\n{calls}\n<｜tool_calls_end｜>",
    ),
)
MUSE_CALLS = Profile(
    "muse",
    TaggedCalls(
        re.compile(r"<atem:invoke name=\"(?P<name>[^\"\n]+)\">"),
        re.compile("</atem:invoke>"),
        re.compile(r"<atem:parameter name=\"(?P<key>[^\"\n]+)\">"),
        "</atem:parameter>",
        first="<atem:invoke",
    ),
    marks=("<atem:function_calls>",),
    closes=("</atem:function_calls>",),
    thoughts=(MUSE,),
    prompt=ToolPrompt(
        '<atem:invoke name="{name}">\n{parameters}\n</atem:invoke>',
        '<atem:parameter name="{key}">{value}</atem:parameter>',
        calls="<atem:function_calls>\n{calls}\n</atem:function_calls>",
    ),
)
MINICPM = Profile(
    "minicpm5",
    TaggedCalls(
        re.compile(r"<function name=\"(?P<name>[^\"\n]+)\">(?:\s*+<params>)?"),
        re.compile(r"(?:</params>\s*+)?</function>"),
        re.compile(r"<param name=\"(?P<key>[^\"\n]+)\">"),
        "</param>",
        first="<function name=",
    ),
    marks=("<function name=",),
    thoughts=(THINK,),
    inside=True,
    sure=False,
    prompt=ToolPrompt(
        '<function name="{name}">{parameters}</function>', '<param name="{key}">{value}</param>', joined=""
    ),
)
GEMMA_4 = Profile(
    "gemma4",
    BracedCalls('<|"|>'),
    marks=("<|tool_call>",),
    closes=("<tool_call|>",),
    thoughts=(GEMMA,),
    prompt=ToolPrompt(
        "<|tool_call>call:{name}{{parameters}}<tool_call|>", "{key}:{value}", ",", between="", nested=Braced('<|"|>')
    ),
)
FUNCTION_GEMMA = Profile(
    "functiongemma",
    BracedCalls("<escape>", textual=True),
    marks=("<start_function_call>",),
    closes=("<end_function_call>",),
    prompt=ToolPrompt(
        "<start_function_call>call:{name}{{parameters}}<end_function_call>",
        "{key}:{value}",
        ",",
        between="",
        nested=Braced("<escape>"),
    ),
)

PROFILES = (
    *(QWEN3_CODER, GLM, SEED_OSS, HUNYUAN_3, MINIMAX_M2, INVOKE, MINIMAX_M3, DSML),
    *(KIMI_K3_CALLS, STEP_3, MUSE_CALLS, MINICPM, GEMMA_4, FUNCTION_GEMMA),
)
