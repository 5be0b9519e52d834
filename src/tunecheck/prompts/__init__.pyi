"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._front_matter import Kind as Kind
from ._loading import load_prompt as load_prompt, shipped_prompt as shipped_prompt
from ._prompt import Prompt as Prompt, PromptInput as PromptInput
