"""Parts that only Azure AI Evaluation has: its own classes by our names, which raise our exception."""

import asyncio
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.azure_parts import evaluate, their_package

import tunecheck_azure as azure
from tunecheck_azure import _constants, simulator


@pytest.fixture
def package(tmp_path: Path) -> Iterator[None]:
    with their_package(tmp_path):
        yield


@pytest.mark.usefixtures("package")
def test_what_classes_of_azure_s_package_raise_is_our_exception(tmp_path: Path) -> None:
    judge: Any = azure.DocumentRetrievalEvaluator
    violence: Any = azure.ViolenceEvaluator
    with pytest.raises(azure.EvaluationException) as raised:
        judge()(documents=[])
    assert (raised.value.message, raised.value.category) == ("documents are missing", azure.ErrorCategory.INVALID_VALUE)
    assert raised.value.target.name == "DOCUMENT_RETRIEVAL_EVALUATOR"
    with pytest.raises(azure.EvaluationException, match="no service"):
        asyncio.run(violence()())
    result = evaluate(tmp_path, {"documents": ["a", "b"]}, evaluators={"d": judge()})
    assert result["metrics"] == {"d.found": 2.0}


@pytest.mark.usefixtures("package")
def test_classes_of_azure_s_package_stay_related() -> None:
    label: Any = azure.AzureOpenAILabelGrader
    grader: Any = azure.AzureOpenAIGrader
    assert isinstance(label("pass"), grader)
    assert isinstance(label("pass"), import_module("azure.ai.evaluation").AzureOpenAIGrader)


@pytest.mark.usefixtures("package")
def test_simulators_and_constants_are_imported_from_the_module_of_that_name() -> None:
    assert simulator.DocumentRetrievalEvaluator.__module__ == "tunecheck_azure.simulator"
    assert _constants.PASS_FAIL == {True: "pass", False: "fail"}
    assert not hasattr(simulator, "Nope")


def test_a_script_that_imports_all_names_gets_azure_s_too() -> None:
    assert {"evaluate", "ContentSafetyEvaluator", "AzureOpenAILabelGrader", "_ToolCallSuccessEvaluator"} <= {
        *azure.__all__
    }
    assert "AIAgentConverter" not in azure.__all__


def test_what_only_azure_has_can_be_imported_and_says_what_to_install() -> None:
    from tunecheck_azure import ViolenceEvaluator

    with pytest.raises(azure.EvaluationException) as raised:
        ViolenceEvaluator(credential=None, azure_ai_project=None)  # type: ignore[operator]
    said = "ViolenceEvaluator needs Azure AI Evaluation: pip install azure-ai-evaluation"
    assert (raised.value.args[0], raised.value.category) == (said, azure.ErrorCategory.MISSING_PACKAGE)
