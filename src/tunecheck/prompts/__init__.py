"""Prompts: `.prompty` files in both dialects, rendered to chat messages that no value can take over.

`_loading` reads a file (`_prompty1`, `_prompty2`), `_template` renders its body.
Others use `load_prompt`, `shipped_prompt` and `Prompt`.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
