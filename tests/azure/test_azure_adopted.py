"""What only Azure AI Evaluation has comes from its package, if it is installed."""

from __future__ import annotations

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
def test_classes_of_azure_s_package_are_its_own_and_judge_here(tmp_path: Path) -> None:
    judge: Any = azure.DocumentRetrievalEvaluator
    assert judge is import_module("azure.ai.evaluation").DocumentRetrievalEvaluator
    result = evaluate(tmp_path, {"documents": ["a", "b"]}, evaluators={"d": judge()})
    assert result["metrics"] == {"d.found": 2.0}


@pytest.mark.usefixtures("package")
def test_simulators_and_constants_are_imported_from_the_module_of_that_name() -> None:
    assert simulator.DocumentRetrievalEvaluator.__module__ == "azure.ai.evaluation.simulator"
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
    said = "ViolenceEvaluator is Azure AI Evaluation's own: pip install azure-ai-evaluation"
    assert (raised.value.args[0], raised.value.category) == (said, azure.ErrorCategory.MISSING_PACKAGE)


@pytest.mark.usefixtures("package")
def test_graders_are_refused_with_the_way_out(tmp_path: Path) -> None:
    grader: Any = azure.AzureOpenAILabelGrader
    with pytest.raises(azure.EvaluationException, match=r"g: graders .* only in azure\.ai\.evaluation's own evaluate"):
        evaluate(tmp_path, {"query": "q"}, evaluators={"g": grader("A"), "n": lambda query: {"length": len(query)}})
