"""Read `.prompty` files in both dialects and render them to chat messages; no value can open a message.

_loading        the entry: `load_prompt`, `shipped_prompt`
_prompt         the result: `Prompt`, with its images
_front_matter   the YAML above the template, the files that it names, the settings of a judge
_prompty1, _prompty2    the two dialects: their keys, and how a rendering is split into messages
_template       the sandboxed template; text of the template is distinguished from text of values
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
