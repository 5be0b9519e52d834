"""The version of this package; the distribution's metadata is made from it."""

__version__ = "1.0.0.dev0"


def is_shipped(module: str) -> bool:
    """Return True if a module belongs to Tunecheck's own packages."""
    top = module.partition(".")[0]
    return top == "tunecheck" or (top.startswith("tunecheck_") and top != "tunecheck_workspace")
