"""The page on prompt files: what it shows works."""

from __future__ import annotations

import re

from tests.conftest import ROOT
from tests.prompts_parts import messages

PAGE = (ROOT / "docs" / "prompt-files.md").read_text("utf-8")


def test_the_pages_conversation_becomes_messages() -> None:
    [body] = re.findall(r"```jinja\n(.*?)```", PAGE, re.DOTALL)
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    roles = [role for role, _ in messages(body, chat_history=history, question="And?")]
    assert roles == ["system", "user", "assistant", "user"]
    line_by_line = body.replace("{{ item.role }}:\n{{ item.content }}", "{{ item.role }}: {{ item.content }}")
    assert [role for role, _ in messages(line_by_line, chat_history=history, question="And?")] == ["system", "user"]


def test_the_page_names_every_language_of_templates_and_every_input_that_is_no_text() -> None:
    from tunecheck.prompts._prompty2 import _LANGUAGES, _RICH

    for name in {*_LANGUAGES.values(), *_RICH} - {"jinja2"}:
        assert name in PAGE
