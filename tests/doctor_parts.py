"""A model that is served right: it answers all of the doctor's questions; and servers that it is served by."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.scripted_rules import ScriptSource, read_script

from tunecheck.endpoints import Diagnosis, examine, load_endpoint

COUNT = " ".join(map(str, range(1, 201)))
RULES = r"""
  - {when: {user: Which word}, answer: HERON}
  - {when: {user: prime}, answer: "2, 3, 5, 7, 11, 13, 17, 19, 23, 29"}
  - when: {user: Count from 1}
    answer: COUNT
  - {when: {user: greet}, answer: Hello to you!}
  - {when: {last: tool}, answer: It is 17 degrees in Lisbon.}
  - when: {user: and in Oslo, tools: true}
    calls:
      - {name: get_weather, arguments: {city: Lisbon, unit: celsius}}
      - {name: get_weather, arguments: {city: Oslo, unit: celsius}}
  - {when: {user: weather, tools: true}, calls: [{name: get_weather, arguments: {city: Lisbon, unit: celsius}}]}
  - {when: {user: weather}, answer: I cannot look that up.}
  - when: {user: Review}
    calls:
      - name: create_event
        arguments:
          title: Review
          place: {city: Porto, room: B2}
          guests: [{name: Ana, age: 31}, {name: Rui, age: 45}]
  - when: {user: thermostat}
    calls: [{name: set_thermostat, arguments: {degrees: 21.5, heating: true, zones: [1, 4]}}]
  - when: {user: Eva}
    calls: [{name: send_message, arguments: {to: Eva, text: "He said \"grüß Gott\", it's 东京 & <b>C:\\new</b>"}}]
  - {when: {user: calendar}, calls: [{name: calendar.find_slot, arguments: {day: "2026-03-05"}}]}
  - {when: {user: voucher}, calls: [{name: archive_voucher, arguments: {code: V-77, value: 20 euros, owner: Ines}}]}
"""


def model(folder: Path, top: str = "", rules: str = "") -> ScriptSource:
    """The model behind a server with these keys of a script, and these rules before the right ones."""
    path = folder / "script.yaml"
    path.write_text(f"{top}\nrules:\n{rules}{RULES.replace('COUNT', COUNT)}", "utf-8")
    return ScriptSource(read_script(path))


async def verdicts(url: str, **definition: Any) -> Mapping[str, Diagnosis]:
    """The doctor's findings at this address, by check."""
    written = {"kind": "openai", "url": f"{url}/v1", "model": "m", "retries": 0, **definition}
    found = await examine(load_endpoint(written), written)
    return {finding.check: finding.verdict for finding in found.findings}
