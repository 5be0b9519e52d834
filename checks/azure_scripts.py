"""Thirteen scripts as Azure AI Evaluation's documentation has them, over one module; what each returns, as JSON.

python azure_scripts.py MODULE FOLDER ADDRESS
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import json
import statistics
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

QUESTIONS = [
    {"query": "When?", "response": "stars:5 at nine", "ground_truth": "at nine", "context": "It opens at nine."},
    {"query": "Where?", "response": "stars:2 in a shed", "ground_truth": "in town", "context": "It is in town."},
    {"query": "Who?", "response": "stars:3 the owner", "ground_truth": "the owner", "context": "The owner keeps it."},
]
CONVERSATIONS = [
    {"conversation": {"messages": [{"role": role, "content": text} for role, text in said]}}
    for said in (
        [("user", "When?"), ("assistant", "stars:5 at nine"), ("user", "Where?"), ("assistant", "stars:2 in town")],
        [("user", "Who?"), ("assistant", "stars:4 me")],
    )
]
TOOLS = [
    {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]
CALLS = [
    {
        "query": f"{city}?",
        "response": f"stars:{stars}",
        "tool_definitions": TOOLS,
        "tool_calls": [
            {"type": "tool_call", "tool_call_id": "c1", "name": "weather", "arguments": {"city": f"stars:{stars}"}}
        ],
    }
    for city, stars in (("Rome", 4), ("Oslo", 1))
]
CALLS += [
    {
        **CALLS[0],
        "query": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "Hello!"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Hello.\nWhere are you?"}]},
            {"role": "user", "content": [{"type": "text", "text": "In Rome."}]},
        ],
        "response": [
            {"role": "assistant", "content": CALLS[0]["tool_calls"]},
            {
                "role": "tool",
                "tool_call_id": "c1",
                "content": [{"type": "tool_result", "tool_result": {"sky": "grau, später blau"}}],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "stars:1, it will be blue."}]},
        ],
    }
]
PROMPT = """\
---
name: Friendliness
model:
  api: chat
  parameters: {max_tokens: 100, temperature: 0}
inputs:
  response: {type: string}
---
user:
How friendly is {{response}}?
"""


class Scripts:
    """The scripts; `azure` is the module that they import."""

    def __init__(self, azure: Any, prompty: Any, folder: Path, address: str) -> None:
        self.azure = azure
        self.exceptions = importlib.import_module(f"{azure.__name__}._exceptions")
        self.prompty = prompty
        self.folder = folder
        self.model = azure.AzureOpenAIModelConfiguration(
            azure_endpoint=address, azure_deployment="judge", api_key="k" * 20, api_version="2024-06-01"
        )
        self.openai = azure.OpenAIModelConfiguration(model="judge", base_url=f"{address}/v1", api_key="k" * 20)
        self.openai["type"] = "openai"  # without it, the package does not know its own configuration
        self.questions = self._jsonl("questions", QUESTIONS)
        self.conversations = self._jsonl("conversations", CONVERSATIONS)
        self.calls = self._jsonl("calls", CALLS)

    def _jsonl(self, name: str, rows: list[dict[str, Any]]) -> str:
        path = self.folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    def text_metrics(self) -> Any:
        a = self.azure
        evaluators = {
            "bleu": a.BleuScoreEvaluator(threshold=0.3),
            "gleu": a.GleuScoreEvaluator(),
            "meteor": a.MeteorScoreEvaluator(),
            "rouge": a.RougeScoreEvaluator(rouge_type=a.RougeType.ROUGE_L),
            "f1": a.F1ScoreEvaluator(),
        }
        return a.evaluate(data=self.questions, evaluators=evaluators)

    def target(self) -> Any:
        def answer(query: str, temperature: float = 0.5) -> dict[str, Any]:
            return {"answer": f"{query} at nine", "temperature": temperature}

        mapping = {"response": "${target.answer}", "ground_truth": "${data.ground_truth}"}
        return self.azure.evaluate(
            data=self.questions,
            target=answer,
            evaluators={"f1": self.azure.F1ScoreEvaluator()},
            evaluator_config={"f1": {"column_mapping": mapping}},
        )

    def function(self) -> Any:
        def length(response: str, **kwargs: Any) -> dict[str, Any]:
            return {"length": len(response), "others": sorted(kwargs)}

        return self.azure.evaluate(data=self.questions, evaluators={"length": length})

    def own_class(self) -> Any:
        class AnswerLength:
            def __call__(self, *, answer: str) -> dict[str, Any]:
                if "shed" in answer:
                    raise ValueError("no sheds")
                return {"words": len(answer.split()), "words_result": "pass" if "nine" in answer else "fail"}

            def __aggregate__(self, rows: list[Any]) -> dict[str, float]:
                return {"median": statistics.median(row.words for row in rows if row.words == row.words)}

        config = {"default": {"column_mapping": {"answer": "${data.response}"}}}
        return self.azure.evaluate(data=self.questions, evaluators={"e": AnswerLength()}, evaluator_config=config)

    def own_prompt(self) -> Any:
        path = self.folder / "friendly.prompty"
        path.write_text(PROMPT)
        configuration = {**self.model, "type": "azure_openai"}  # which the package's loader cannot tell by itself
        flow = self.prompty.load(source=str(path), model={"configuration": configuration})

        class Friendliness:
            async def __call__(self, *, response: str, **kwargs: Any) -> dict[str, Any]:
                said = await flow(response=response)
                text = said["llm_output"] if isinstance(said, dict) else said
                return {"friendliness": json.loads(text)["score"]}

        return self.azure.evaluate(data=self.questions, evaluators={"f": Friendliness()})

    def questions_and_answers(self) -> Any:
        return self.azure.evaluate(data=self.questions, evaluators={"qa": self.azure.QAEvaluator(self.model)})

    def conversation(self) -> Any:
        a = self.azure
        evaluators = {"coherence": a.CoherenceEvaluator(self.model), "fluency": a.FluencyEvaluator(self.model)}
        return a.evaluate(data=self.conversations, evaluators=evaluators)

    def assisted(self) -> Any:
        a = self.azure
        evaluators = {
            "similarity": a.SimilarityEvaluator(self.model, threshold=4),
            "completeness": a.ResponseCompletenessEvaluator(model_config=self.model),
        }
        return a.evaluate(data=self.questions, evaluators=evaluators, evaluation_name="assisted", tags={"a": "b"})

    def grounded(self) -> Any:
        a = self.azure
        evaluators = {
            "groundedness": a.GroundednessEvaluator(self.model),
            "relevance": a.RelevanceEvaluator(self.model),
            "retrieval": a.RetrievalEvaluator(self.model),
        }
        config = {
            "groundedness": {"column_mapping": {"response": "${data.response}", "context": "${data.context}"}},
            "retrieval": {"column_mapping": {"query": "${data.query}", "context": "${data.response}"}},
        }
        return a.evaluate(data=self.questions, evaluators=evaluators, evaluator_config=config)

    def agents(self) -> Any:
        a = self.azure
        evaluators = {
            "calls": a.ToolCallAccuracyEvaluator(self.model),
            "intent": a.IntentResolutionEvaluator(self.model),
            "adherence": a.TaskAdherenceEvaluator(self.model),
        }
        return a.evaluate(data=self.calls, evaluators=evaluators)

    def table(self) -> Any:
        path = self.folder / "questions.csv"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(QUESTIONS[0]))
            writer.writeheader()
            writer.writerows(QUESTIONS)
        evaluators = {"f1": self.azure.F1ScoreEvaluator(threshold=0.9)}
        self.azure.evaluate(data=str(path), evaluators=evaluators, output_path=str(self.folder))
        return json.loads((self.folder / "evaluation_results.json").read_text("utf-8"))

    def documents(self) -> Any:
        judge = self.azure.DocumentRetrievalEvaluator()
        labels = [{"document_id": each, "query_relevance_label": label} for each, label in (("a", 4), ("b", 0))]
        found = [{"document_id": each, "relevance_score": score} for each, score in (("b", 2.0), ("a", 1.0))]
        path = self._jsonl("documents", [{"retrieval_ground_truth": labels, "retrieved_documents": found}])
        refused = ""
        try:
            judge(retrieval_ground_truth=labels)
        except self.exceptions.EvaluationException as error:
            refused = f"{error.category.name} {error.target.name} {error}"
        result = self.azure.evaluate(data=path, evaluators={"documents": judge})
        return {"rows": result["rows"], "metrics": {**result["metrics"], "refused": refused}}

    def reasoning(self) -> Any:
        judge = self.azure.FluencyEvaluator(self.openai, is_reasoning_model=True)
        return self.azure.evaluate(data=self.questions, evaluators={"fluency": judge})


def main(module: str, folder: Path, address: str) -> None:
    azure = importlib.import_module(module)
    home = f"{module}._legacy.prompty" if module == "azure.ai.evaluation" else module
    scripts = Scripts(azure, importlib.import_module(home).AsyncPrompty, folder, address)
    named: Mapping[str, Callable[[], Any]] = {
        name: getattr(scripts, name) for name in vars(Scripts) if not name.startswith("_")
    }
    with contextlib.redirect_stdout(sys.stderr), contextlib.chdir(folder):
        found = {name: run() for name, run in named.items()}
    print(json.dumps({name: {"rows": each["rows"], "metrics": each["metrics"]} for name, each in found.items()}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
