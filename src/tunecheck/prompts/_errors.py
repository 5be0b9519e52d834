"""What is wrong with a prompt file, or with its rendering."""

from tunecheck._errors import ConfigurationError, TunecheckError


class PromptError(ConfigurationError):
    """A prompt file that cannot be used, or is used wrongly; the text names file, line and key."""


class PromptRenderError(TunecheckError):
    """The template fails on the values of one row; the text names file and line."""
