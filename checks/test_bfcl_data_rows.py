"""Rows of BFCL equal those that the reference makes of the same data."""

from __future__ import annotations

import json
import subprocess
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from tests.bfcl.test_bfcl_data_rows import _rows, copy
from tests.bfcl_reference import reference_python

from tunecheck_bfcl._data.files import CATEGORIES, GROUPS
from tunecheck_bfcl._data.loader import load_bfcl

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["copy"]


def test_the_rows_of_all_categories_are_read_one_at_a_time(copy: Path) -> None:
    dataset = load_bfcl(f"all?data={copy}")
    dataset.scan()
    tracemalloc.start()
    count = sum(1 for _ in dataset.rows())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 4441
    assert peak < 8 << 20  # the rows together are some 200 MB


def test_long_context_is_asked_for_by_the_two_categories_that_have_it(copy: Path) -> None:
    asking = {
        name
        for name, category in CATEGORIES.items()
        if category.multi_turn and all(row["long_context"] for row in _rows(name, copy))
    }
    assert asking == {"multi_turn_long_context", "multi_turn_composite"}


REFERENCE = """
import copy, json, sys
from bfcl_eval.constants.enums import ModelStyle
from bfcl_eval.constants.type_mappings import GORILLA_TO_OPENAPI
from bfcl_eval.model_handler.utils import convert_to_tool, formulate_system_prompt
from bfcl_eval.constants.default_prompts import DEFAULT_SYSTEM_PROMPT_FORMAT
from bfcl_eval.utils import load_dataset_entry
def tools(documents):
    return convert_to_tool(copy.deepcopy(documents), GORILLA_TO_OPENAPI, ModelStyle.OPENAI_COMPLETIONS)
for name in sys.argv[1:]:
    for entry in load_dataset_entry(name):
        held_out = entry.get("missed_function", {})
        prompt = formulate_system_prompt(DEFAULT_SYSTEM_PROMPT_FORMAT, entry["function"])
        print(json.dumps([entry["id"], entry["function"], tools(entry["function"]), held_out,
            {turn: tools(documents) for turn, documents in held_out.items()}, entry["question"], prompt]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("group", ["non_live", "live", "multi_turn"])
def test_functions_tools_questions_and_system_prompts_equal_the_references_to_the_letter(
    copy: Path, group: str
) -> None:
    from tunecheck_bfcl._data.prompts import read_prompts, system_prompt

    prompts = read_prompts(copy)
    command = [str(reference_python()), "-c", REFERENCE, *GROUPS[group]]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = load_bfcl(f"{group}?data={copy}").rows()
    for line, row in zip(lines, rows, strict=True):
        values = row.values
        turns = values["turns"] if "turns" in values else [values["messages"]]
        functions = values["functions"]
        assert isinstance(functions, list)
        ours = [row.id, functions, values["tools"], values.get("held_out", {}), values.get("held_out_tools", {}), turns]
        assert json.dumps([*ours, system_prompt(prompts, functions)]) == json.dumps(json.loads(line))
