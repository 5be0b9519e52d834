"""The page about user-written simulators is right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tunecheck.calls import FunctionCall
from tunecheck.simulators import Backend, Backends

PAGE = Path(__file__).resolve().parents[2] / "docs" / "own-simulators.md"


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    """The page's simulator as a file of a workspace, started as the page starts it."""
    (code,) = re.findall(r"```python\n# simulators/thermostat\.py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    (tmp_path / "simulators").mkdir()
    (tmp_path / "simulators" / "thermostat.py").write_text(code)
    return Backends(workspace=tmp_path).start(["thermostat"], {"thermostat": {"target": 18}})


def test_the_pages_simulator_answers_and_keeps_its_state(backend: Backend) -> None:
    assert backend.call(FunctionCall("set_target", {"degrees": 22})).text == '{"target": 22}'
    assert backend.states() == {"thermostat": {"target": 22, "locked": False}}


def test_the_pages_simulator_is_described_by_its_signature(backend: Backend) -> None:
    assert backend.tool_definitions()[0] == {
        "type": "function",
        "function": {
            "name": "set_target",
            "description": "Set the temperature to heat to.",
            "parameters": {
                "type": "object",
                "properties": {
                    "degrees": {"type": "number", "description": "The temperature."},
                    "unit": {"type": "string", "description": '"celsius" or "fahrenheit".', "default": "celsius"},
                },
                "required": ["degrees"],
            },
        },
    }


def test_what_goes_wrong_is_told_as_the_page_says(backend: Backend) -> None:
    wrong = [
        ("set_targett", {"degrees": 22}, "did you mean 'set_target'?"),
        ("set_target", {"degree": 22}, "did you mean 'degrees'?"),
        ("set_target", {}, "needs 'degrees'"),
        ("set_target", {"degrees": [22], "unit": "fahrenheit"}, "TypeError"),
    ]
    for name, arguments, words in wrong:
        result = backend.call(FunctionCall(name, arguments))  # type: ignore[arg-type]
        assert result.error
        assert words in result.text
