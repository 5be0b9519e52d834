"""Judges whose prompts come with the package, and what each of them shares: a prompt that a workspace can replace."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from tunecheck._json import JSON
from tunecheck.evaluators._judges.model import ModelConfig
from tunecheck.evaluators._judges.prompty import PromptyEvaluator


class ShippedJudge(PromptyEvaluator):
    """Base of the judges that come with the package.

    The prompt is `prompty`, else `prompty/<name>.prompty` in the workspace, the current folder, else the package's own.
    What its prompt asks for beyond the evaluator's parameters becomes a parameter, too. The other arguments are those
    of `PromptyEvaluator`.
    """

    replaceable_prompt: ClassVar[str]
    """The judge's name: of its plugin, its prompt's file, and its metric."""

    def __init__(
        self,
        model_config: ModelConfig | None = None,
        *,
        threshold: float | None = None,
        samples: int | None = None,
        combine: Literal["mean", "majority"] | None = None,
        parameters: Mapping[str, JSON] | None = None,
        prompty: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(
            self._own_prompt() if prompty is None else prompty,
            model_config,
            self.replaceable_prompt,
            threshold=threshold,
            samples=samples,
            combine=combine,
            parameters=parameters,
        )

    @classmethod
    def _own_prompt(cls) -> Path:
        name = f"{cls.replaceable_prompt}.prompty"
        replaced = Path("prompty") / name
        return replaced if replaced.is_file() else Path(__file__).parents[2] / "prompts" / "files" / name
