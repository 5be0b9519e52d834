"""Families that write calls as Python does: `[f(city='Paris', n=3), g(x=True)]`."""

from tunecheck.formats._families.thoughts import THINK
from tunecheck.formats._profiles import Profile
from tunecheck.formats._prompts import ToolPrompt, json_list, python_list
from tunecheck.formats._shapes import JsonCalls, PythonCalls

_CALLS = PythonCalls()

PYTHONIC = Profile("pythonic", _CALLS, prompt=python_list("", ""))
"""Llama 3.2 and 4, ToolACE: calls without any mark."""

LFM2 = Profile(
    "lfm2",
    _CALLS,
    marks=("<|tool_call_start|>",),
    closes=("<|tool_call_end|>",),
    thoughts=(THINK,),
    prompt=python_list("<|tool_call_start|>", "<|tool_call_end|>", tools="<|tool_list_start|>{tools}<|tool_list_end|>"),
)
OLMO_3 = Profile(
    "olmo3",
    _CALLS,
    marks=("<function_calls>",),
    closes=("</function_calls>",),
    thoughts=(THINK,),
    sure=False,
    prompt=ToolPrompt("{name}({parameters})", "{key}={python}", ", ", "<function_calls>{calls}</function_calls>"),
)
GEMMA_3 = Profile(
    "gemma3",
    _CALLS,
    marks=("```tool_code",),
    closes=("```",),
    sure=False,
    prompt=python_list("```tool_code\n", "\n```"),
)

BARE_JSON = Profile("json", JsonCalls(), thoughts=(THINK,), prompt=json_list("", ""))
"""Llama 3.x without built-in tools, xLAM, Hammer: JSON without any mark."""

PROFILES = (PYTHONIC, LFM2, OLMO_3, GEMMA_3, BARE_JSON)
