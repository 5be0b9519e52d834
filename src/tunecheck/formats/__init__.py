"""Read calls and thoughts in the wire formats of APIs and in the texts of model families.

A family is a `Profile`: its marks, and the shape of its calls. `families.toml` describes the known ones. A file in the
workspace's folder `formats`, or an entry point `tunecheck.formats`, adds another.

    _reading               the entry: `read_calls` for any value, the cache of a row
    _texts                 a text as a whole; _bare finds calls without marks in it
    _json_shapes           calls and messages of APIs as JSON values
    _shapes, _tagged       the shapes of calls in text
    _profiles, _families   the profile of a family with its prompts, the known families and the calls after their marks
    _collector             the calls and texts found so far
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
