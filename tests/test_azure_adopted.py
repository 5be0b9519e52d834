"""What only Azure AI Evaluation has: its own classes by our names, which raise our exception."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.azure_parts import evaluate

from tunecheck import azure
from tunecheck.azure import simulator
from tunecheck.azure._adopted import _subclass

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
    pass


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


@pytest.fixture
def their_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that stands for azure-ai-evaluation, with classes of its own."""
    package = tmp_path / "site" / "azure" / "ai" / "evaluation"
    package.mkdir(parents=True)
    (package / "_exceptions.py").write_text(THEIR_EXCEPTIONS)
    for name in ("__init__", "simulator"):
        (package / f"{name}.py").write_text(THEIR_EVALUATORS)
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield
    _subclass.cache_clear()
    for name in [name for name in sys.modules if name == "azure.ai" or name.startswith("azure.ai.")]:
        del sys.modules[name]


@pytest.mark.usefixtures("their_package")
def test_what_classes_of_azure_s_package_raise_is_our_exception(tmp_path: Path) -> None:
    judge: Any = azure.DocumentRetrievalEvaluator
    violence: Any = azure.ViolenceEvaluator
    with pytest.raises(azure.EvaluationException) as raised:
        judge()(documents=[])
    assert (raised.value.message, raised.value.category) == ("documents are missing", azure.ErrorCategory.INVALID_VALUE)
    assert raised.value.target is azure.ErrorTarget.DOCUMENT_RETRIEVAL_EVALUATOR
    with pytest.raises(azure.EvaluationException, match="no service"):
        asyncio.run(violence()())
    result = evaluate(tmp_path, {"documents": ["a", "b"]}, evaluators={"d": judge()})
    assert result["metrics"] == {"d.found": 2.0}


@pytest.mark.usefixtures("their_package")
def test_classes_of_azure_s_package_stay_related() -> None:
    label: Any = azure.AzureOpenAILabelGrader
    grader: Any = azure.AzureOpenAIGrader
    assert isinstance(label(), grader)
    assert isinstance(label(), import_module("azure.ai.evaluation").AzureOpenAIGrader)


@pytest.mark.usefixtures("their_package")
def test_simulators_are_imported_from_the_module_of_that_name() -> None:
    assert simulator.DocumentRetrievalEvaluator.__module__ == "tunecheck.azure.simulator"
    assert not hasattr(simulator, "Nope")


def test_what_only_azure_has_can_be_imported_and_says_what_to_install() -> None:
    from tunecheck.azure import ViolenceEvaluator

    with pytest.raises(azure.EvaluationException) as raised:
        ViolenceEvaluator(credential=None, azure_ai_project=None)  # type: ignore[operator]
    said = "ViolenceEvaluator is Azure AI Evaluation's own: pip install azure-ai-evaluation"
    assert (raised.value.args[0], raised.value.category) == (said, azure.ErrorCategory.MISSING_PACKAGE)
