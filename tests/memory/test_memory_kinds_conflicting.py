"""Conflicting personal information: a generator endpoint writes the content; what it writes is checked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tunecheck import ConfigurationError, ReplyError
from tunecheck.endpoints import load_endpoint
from tunecheck_memory import Definition, GenerationContext, find_kind
from tunecheck_memory._kinds.recall import read_content

WRITER = '''
import json

asked = []

def write(messages):
    """Writes nonsense first, then content, in a fence as models do."""
    asked.append(messages[-1]["content"])
    if len(asked) <= {nonsense}:
        return "Sure, here you go!"
    content = ["I live in " + place + "." for place in ("Bergen", "Oslo", "Turku")]
    reply = {{"content": content, "question": "Where do I live?", "answer": "Turku"}}
    return "```json\\n" + json.dumps(reply) + "\\n```"
'''


def make(folder: Path, nonsense: int = 0, count: int = 1) -> list[Definition]:
    (folder / "writer.py").write_text(WRITER.format(nonsense=nonsense))
    (folder / "writer.yaml").write_text("kind: python\nfunction: writer.py:write\n")
    generator = load_endpoint(folder / "writer.yaml")
    return find_kind("conflicting_personal_info").definitions(count, GenerationContext(0, 32_000, generator=generator))


def test_without_a_generator_it_says_what_to_give() -> None:
    with pytest.raises(ConfigurationError, match="with --generator, or existing definitions with --definitions"):
        find_kind("conflicting_personal_info").definitions(1, GenerationContext(0, 32_000))


def test_the_content_is_told_and_the_current_fact_asked_for(tmp_path: Path) -> None:
    one, other = make(tmp_path, count=2)
    assert one.script == ("I live in Bergen.", "I live in Oslo.", "I live in Turku.", "Where do I live?")
    assert list(one.expected) == ["Turku"]
    assert one.is_question == (False, False, False, True)
    assert (one.example, other.example) == ("0", "1")


def test_a_reply_that_cannot_be_used_is_asked_for_again(tmp_path: Path) -> None:
    assert make(tmp_path, nonsense=4)[0].expected == ("Turku",)


def test_a_generator_that_never_writes_anything_usable_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReplyError, match="writer wrote nothing usable in 5 attempts: there is no JSON in the text"):
        make(tmp_path, nonsense=99)


def test_it_can_be_made_within_a_running_event_loop(tmp_path: Path) -> None:
    async def within() -> list[Definition]:
        return make(tmp_path)

    assert asyncio.run(within())[0].expected == ("Turku",)


@pytest.mark.parametrize(
    "reply",
    [
        "", "[]", "{}", '{"content": "a", "question": "b", "answer": "c"}',
        '{"content": ["a"], "question": "b", "answer": "c"}', '{"content": ["a", 3], "question": "b", "answer": "c"}',
        '{"content": ["a", "b"], "question": "", "answer": "c"}',
        '{"content": ["a", ""], "question": "b", "answer": "c"}',
        '{"content": ["a", "b"], "question": "b", "answer": null}', "{" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_content_is_refused(reply: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_content(reply)
