"""Shared parts of the tests of prompts: a prompt from its parts, and the lines that random templates are made of."""

import random
from pathlib import Path

from tunecheck.prompts import Prompt, load_prompt

FRONT = "---\nname: a test\nmodel:\n  api: chat\n  parameters:\n    temperature: 0\n"

SAMPLES: tuple[object, ...] = (
    "",
    "Paris",
    "Zoë asked: «¿qué?» 今天 🙂\u2028next",
    "first line\nsecond line\n\n  indented\n",
    ' {{ not }} {% a %} template {# at all #} \\n "quoted" ',
    ["a", 1, 2.5, None, True, {"k": "v'\""}],
    {"name": "get_weather", "arguments": {"city": "São Paulo", "days": [1, 2]}},
    [
        {"role": "user", "content": [{"type": "text", "text": "What is the weather in Paris?"}]},
        {
            "role": "assistant",
            "content": [{"type": "tool_call", "name": "get_weather", "arguments": {"city": "Paris"}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "tool_result", "tool_result": {"t": 21.5}}]},
    ],
    1234567890123456789,
    None,
)

LINES = (
    "system:", "user:", "assistant:", "# user:", "  #  System :  ", "USER:\t", "user x", "user: hello", "a user:", "#",
    "##system:", "# # user:", "", "   ", "some text", "Text: more", "name:", "bob", "content:", "## content:",
    "name: x", "function:", "![a](https://example.com/a.png)", "see ![b](http://example.com/b.png) and", "![broken](",
    "system :",
)  # fmt: skip
"""Lines that a splitter of messages must tell apart. Prompt flow's `tool:` is not among them: Azure has none."""


def make(body: str, front: str = "", *, name: str = "test.prompty") -> Prompt:
    """A prompt of the older dialect with this body, and these lines more in its front matter."""
    return load_prompt(name, text=f"{FRONT}{front}---\n{body}")


def messages(body: str, front: str = "", **values: object) -> list[tuple[object, object]]:
    """Role and content of each message."""
    return [(message["role"], message["content"]) for message in make(body, front).render(values)]


def random_template(seed: int) -> str:
    """A template of a few of those lines; half of them begin as they should."""
    rng = random.Random(seed)
    lines = [rng.choice(LINES) for _ in range(rng.randint(1, 12))]
    return "\n".join(["system:"] * rng.randint(0, 1) + lines) + "\n" * rng.randint(0, 2)


def write(folder: Path, name: str, body: str, front: str = "") -> Path:
    """A `.prompty` file."""
    path = folder / f"{name}.prompty"
    path.write_text(f"{FRONT}{front}---\n{body}", encoding="utf-8")
    return path
