"""Shared parts of the tests of `tunecheck_azure`: a file of rows, and evaluate() that keeps its run folder below it."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli_parts import write_lines

import tunecheck_azure as azure
from tunecheck_azure._adopted import _subclass

QA = (
    {"query": "q1", "response": "blue sky", "ground_truth": "a blue sky", "context": "c1"},
    {"query": "q2", "response": "red", "ground_truth": "green", "context": "c2"},
    {"query": "q3", "response": "the sea", "ground_truth": "sea", "context": "c3"},
)
CONVERSATION = {
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "blue sky", "ground_truth": "blue sky", "context": {"source": "book"}},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "red", "ground_truth": "green"},
        {"role": "user", "content": "unanswered"},
    ]
}


THEIR_EXCEPTIONS = """
from enum import Enum

Category, Target, Blame = (
    Enum(*names) for names in (("C", "INVALID_VALUE"), ("T", "DOCUMENT_RETRIEVAL_EVALUATOR"), ("B", "USER_ERROR"))
)


class EvaluationException(Exception):
    def __init__(self, message):
        super().__init__(message)
        self.message, self.internal_message, self.tsg_link = message, None, None
        self.category, self.target, self.blame = *Category, *Target, *Blame
"""
THEIR_EVALUATORS = """
from typing import overload

from azure.ai.evaluation._exceptions import EvaluationException


class AzureOpenAIGrader:
    def __init__(self, passing):
        self.passing = passing


class AzureOpenAILabelGrader(AzureOpenAIGrader):
    pass


class DocumentRetrievalEvaluator:
    @overload
    def __call__(self, *, documents: list) -> dict: ...

    def __call__(self, *args, **kwargs):
        if not kwargs.get("documents"):
            raise EvaluationException("documents are missing")
        return {"found": len(kwargs["documents"])}


class ViolenceEvaluator:
    async def __call__(self, **kwargs):
        raise EvaluationException("no service")
"""


@contextmanager
def their_package(folder: Path) -> Iterator[None]:
    """A package in the place of azure-ai-evaluation, with classes of its own."""
    package = folder / "site" / "azure" / "ai" / "evaluation"
    package.mkdir(parents=True)
    (package / "_exceptions.py").write_text(THEIR_EXCEPTIONS)
    (package / "_constants.py").write_text('PASS_FAIL = {True: "pass", False: "fail"}')
    for name in ("__init__", "simulator"):
        (package / f"{name}.py").write_text(THEIR_EVALUATORS)
    sys.path.insert(0, str(folder / "site"))
    try:
        yield
    finally:
        sys.path.remove(str(folder / "site"))
        _subclass.cache_clear()
        for name in [name for name in sys.modules if name == "azure.ai" or name.startswith("azure.ai.")]:
            del sys.modules[name]


def jsonl(folder: Path, *rows: Mapping[str, Any], name: str = "data.jsonl") -> Path:
    return write_lines(folder / name, rows or QA)


def evaluate(folder: Path, *rows: Mapping[str, Any], **arguments: Any) -> Any:
    """The result of azure.evaluate() over these rows, by default three questions and answers."""
    return azure.evaluate(**{"data": jsonl(folder, *rows), "results_dir": folder / "runs", "workers": 0, **arguments})


def column(result: Any, name: str) -> list[Any]:
    return [row[name] for row in result["rows"]]
