"""A tiny copy of BFCL with made-up entries in the real layout, for tests that need no download."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cli_parts import write_lines

from tunecheck_bfcl import CATEGORIES
from tunecheck_bfcl._data.files import FUNCTION_DOCS, HINTS, LONG_CONTEXT, PROMPTS, TOOL_HINTS

PROMPT_FILE = """\
import nothing_like_this
raise SystemExit("a file of prompts was run")
GREETING = "hello"
TABLE = {"classic": {"task": "do it"}}
DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC = "there is more"
DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_PROMPTING = "{functions}|" + DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC
"""


def document(name: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    """A function document with these parameters."""
    parameters = {"type": "dict", "properties": properties, "required": list(properties)}
    return {"name": name, "description": f"Does {name}.", "parameters": parameters}


def question(entry_id: str, *documents: Mapping[str, object], text: str = "please") -> dict[str, object]:
    """A single-turn entry."""
    return {"id": entry_id, "question": [[{"role": "user", "content": text}]], "function": list(documents)}


def conversation(entry_id: str) -> dict[str, object]:
    """A multi-turn entry with one turn."""
    return {
        "id": entry_id,
        "question": [[{"role": "user", "content": "please"}]],
        "initial_config": {"MathAPI": {}},
        "involved_classes": ["MathAPI"],
    }


def make_tree(root: Path) -> Path:
    """A whole copy, one entry a category, below `root/bfcl_eval`; gives the data folder."""
    package = root / "bfcl_eval"
    data = package / "data"
    for category in CATEGORIES.values():
        name = f"{category.name}_0"
        entry = conversation(name) if category.multi_turn else question(name, document("f.g", x={"type": "float"}))
        write_lines(data / category.questions, [entry])
        if category.answers:
            truth: list[object] = [["first(x=1)"]] if category.multi_turn else [{"f.g": {"x": [1.0]}}]
            write_lines(data / category.answers, [{"id": name, "ground_truth": truth}])
    for file in FUNCTION_DOCS.values():
        one, two = document("first", x={"type": "integer", "description": "A number."}), document("second")
        write_lines(data / "multi_turn_func_doc" / file, [one, two])
    for text, content in {
        LONG_CONTEXT: "WORDS = ['a', 'b']\n",
        PROMPTS: PROMPT_FILE,
        HINTS: "",
        TOOL_HINTS: "",
    }.items():
        (package / text).parent.mkdir(parents=True, exist_ok=True)
        (package / text).write_text(content)
    return data


def make_wheel(path: Path, members: Mapping[str, str | bytes]) -> Path:
    """A zip file of that name with these members, whatever their names."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path
