"""Prompts: `.prompty` files in both dialects, rendered to chat messages that no value can take over."""

from __future__ import annotations

from tunecheck.prompts.loading import load_prompt
from tunecheck.prompts.prompt import Prompt, PromptError, PromptInput, PromptRenderError

__all__ = ["Prompt", "PromptError", "PromptInput", "PromptRenderError", "load_prompt"]
