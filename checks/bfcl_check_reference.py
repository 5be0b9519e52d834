"""Has BFCL's own checker judge results: run by the python of an environment that holds `bfcl-eval`.

    python bfcl_check_reference.py CASES OUT

CASES holds one case a line, `{"id", "category", "mode": "tools" | "text", "function", "answer", "result"}` for a single
turn, `{"id", "category", "mode", "entry", "answer", "result"}` for several; OUT gets `{"valid", "error_type"}` a line,
with `crash` where the checker raised.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any
from unittest.mock import MagicMock

# What the handlers and the runner import and the judging does not need; 150 packages in all.
_UNNEEDED = (
    "openai openai.types openai.types.responses anthropic anthropic.types google google.genai mistralai cohere boto3 "
    "requests dotenv transformers torch tqdm httpx numpy pandas typer tabulate bs4 html2text serpapi faiss rank_bm25 "
    "sentence_transformers"
).split()


class _Entry:
    is_fc_model = True

    def __init__(self, name: str) -> None:
        self.model_name = self.display_name = name
        self.underscore_to_dot = not name.startswith("text")


class _Registry(dict):  # type: ignore[type-arg]
    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> _Entry:
        return _Entry(name)


def main(cases: str, out: str) -> None:
    for name in _UNNEEDED:
        try:
            importlib.import_module(name)
        except ImportError:
            sys.modules[name] = MagicMock()
    judge = _Judge()
    with open(cases, encoding="utf-8") as source, open(out, "w", encoding="utf-8") as target:
        for line in source:
            target.write(json.dumps(judge.of(json.loads(line))) + "\n")


class _Judge:
    def __init__(self) -> None:
        self.runner: Any = importlib.import_module("bfcl_eval.eval_checker.eval_runner")
        checker: Any = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker")
        checker.MODEL_CONFIG_MAPPING = _Registry()
        handlers: Any = importlib.import_module("bfcl_eval.model_handler.api_inference.openai_completion")
        self.enums: Any = importlib.import_module("bfcl_eval.constants.enums")
        self.handlers = {}
        for mode in ("tools", "text"):
            handler = handlers.OpenAICompletionsHandler.__new__(handlers.OpenAICompletionsHandler)
            handler.is_fc_model = mode == "tools"
            handler.model_name = mode
            self.handlers[mode] = handler
        self.count = 0

    def of(self, case: dict[str, Any]) -> dict[str, Any]:
        try:
            found = self._judged(case)
        except Exception as error:
            return {"valid": False, "error_type": None, "crash": f"{type(error).__name__}: {error}"}
        error_type = found.get("error_type")
        if error_type is None and isinstance(found.get("error"), dict):
            error_type = found["error"].get("error_type")
        return {"valid": found["valid"], "error_type": error_type}

    def _judged(self, case: dict[str, Any]) -> Any:
        handler, name, category = self.handlers[case["mode"]], case["mode"], case["category"]
        if "entry" in case:
            self.count += 1  # a name of its own for every attempt: the reference keeps its instances by name
            judge, name = self.runner._evaluate_single_multi_turn_entry, f"{name}{self.count}"
            return judge(handler, case["id"], case["result"], case["answer"], case["entry"], name, category)
        entry = {"id": case["id"], "question": [[]], "function": case["function"]}
        if "relevance" in category:
            judge = self.runner._evaluate_single_relevance_entry
            return judge(handler, case["id"], case["result"], entry, name, category)
        language = "java" if "java" in category else "python"
        language = "javascript" if "javascript" in category else language
        languages = self.enums.Language(language), self.enums.ReturnFormat(language)
        judge = self.runner._evaluate_single_ast_entry
        return judge(handler, case["id"], case["result"], case["answer"], entry, name, category, *languages)


if __name__ == "__main__":
    main(*sys.argv[1:])
