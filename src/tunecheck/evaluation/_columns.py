"""What evaluators and target take of the data's columns, checked before anything is asked."""

from collections.abc import Iterable, Iterator

from tunecheck._targets import Target
from tunecheck.pipeline._callables import CallableTarget
from tunecheck.pipeline._mapping import MappingLayers, check_binding, tools_left_out
from tunecheck.pipeline._scoring import BoundEvaluator


def check_columns(
    evaluators: Iterable[BoundEvaluator], target: Target | None, layers: MappingLayers, columns: frozenset[str]
) -> None:
    """See that every parameter can be bound.

    Raises:
        ConfigurationError: names the evaluator or the target, the parameter, and the column that was probably meant.
    """
    target_columns = target.columns if target is not None else None
    for evaluator in evaluators:
        check_binding(
            evaluator.signature,
            layers[evaluator.name],
            f"evaluator {evaluator.name!r}",
            columns=columns,
            target_columns=target_columns,
            has_target=target is not None,
        )
    if isinstance(target, CallableTarget):
        mapping = layers["target"]
        check_binding(target.signature, mapping, "the target", columns=columns, target_columns=None, has_target=False)


def tools_remark(
    evaluators: Iterable[BoundEvaluator], target: Target | None, layers: MappingLayers, columns: frozenset[str]
) -> Iterator[str]:
    """That evaluators could take the tools of the data, and nothing gives them."""
    if target is not None and "tool_definitions" in (target.columns or ()):
        return
    found = (tools_left_out(each.signature, layers[each.name], columns) for each in evaluators)
    if column := next(filter(None, found), None):
        yield (
            f"evaluators of calls are not given the column {column!r}, by which calls in texts are known and "
            f"checked: --mapping 'tool_definitions=${{data.{column}}}'"
        )
