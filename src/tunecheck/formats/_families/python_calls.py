"""Families that write calls as Python does: `[f(city='Paris', n=3), g(x=True)]`."""

from tunecheck.formats._families.thoughts import MINICPM, THINK
from tunecheck.formats._profiles import Profile
from tunecheck.formats._prompts import ToolPrompt, json_list, python_list
from tunecheck.formats._shapes import AnyOf, JsonCalls, PythonCalls

_CALLS = PythonCalls()

PYTHONIC = Profile(
    "pythonic", _CALLS, marks=("<|python_start|>",), closes=("<|python_end|>",), sure=False, prompt=python_list("", "")
)
"""Llama 3.2 and 4, ToolACE: calls without any mark, or between Llama 4's."""

LFM2 = Profile(
    "lfm2",
    AnyOf((_CALLS, JsonCalls())),
    marks=("<|tool_call_start|>",),
    closes=("<|tool_call_end|>",),
    thoughts=(THINK,),
    prompt=python_list("<|tool_call_start|>", "<|tool_call_end|>", tools="<|tool_list_start|>{tools}<|tool_list_end|>"),
)
MINICPM_3 = Profile(
    "minicpm3",
    _CALLS,
    marks=("<|tool_call_start|>\n```python",),
    closes=("```\n<|tool_call_end|>",),
    thoughts=(MINICPM,),
    prompt=ToolPrompt(
        "{name}({parameters})",
        "{key}={python}",
        ", ",
        "<|tool_call_start|>\n```python\n{calls}\n```\n<|tool_call_end|>",
    ),
)
GORILLA = Profile(
    "gorilla",
    _CALLS,
    marks=("<<function>>",),
    prompt=ToolPrompt("<<function>>{name}({parameters})", "{key}={python}", ", ", between=""),
)
"""Gorilla OpenFunctions v2."""

NEXUSRAVEN = Profile(
    "nexusraven",
    PythonCalls(known=True),
    marks=("Call:", "Action:"),
    closes=("<bot_end>",),
    sure=False,
    prompt=ToolPrompt("{name}({parameters})", "{key}={python}", ", ", "Call: {calls}", "; "),
)
"""NexusRaven, and agents that act in Python's syntax."""

OLMO_3 = Profile(
    "olmo3",
    _CALLS,
    marks=("<function_calls>",),
    closes=("</function_calls>",),
    thoughts=(THINK,),
    sure=False,
    prompt=ToolPrompt(
        "{name}({parameters})",
        "{key}={python}",
        ", ",
        "<function_calls>{calls}</function_calls>",
        tools="<functions>{tools}</functions>",
    ),
)
GEMMA_3 = Profile(
    "gemma3",
    _CALLS,
    marks=("```tool_code", "<tool_code>"),
    closes=("```", "</tool_code>"),
    sure=False,
    prompt=python_list("```tool_code\n", "\n```"),
)

BARE_JSON = Profile("json", JsonCalls(), thoughts=(THINK,), prompt=json_list("", ""))
"""Llama 3.x without built-in tools, xLAM, Hammer: JSON without any mark."""

PROFILES = (PYTHONIC, LFM2, MINICPM_3, GORILLA, NEXUSRAVEN, OLMO_3, GEMMA_3, BARE_JSON)
