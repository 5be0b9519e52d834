"""The version of this package; the distribution's metadata is made from it."""

__version__ = "0.1.0"
