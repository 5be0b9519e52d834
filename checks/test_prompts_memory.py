"""No template that asks for too much takes more than 200 MB before it ends as an error."""

from __future__ import annotations

from tests.test_prompts_hostile import TOO_MUCH, memory_for


def test_none_of_these_templates_takes_more_than_200_mb() -> None:
    assert memory_for([*TOO_MUCH.values()]) < 200
