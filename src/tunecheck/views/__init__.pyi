"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._files import html as html, junit as junit, markdown as markdown
from ._model import (
    SIMULATED as SIMULATED,
    Cell as Cell,
    Chart as Chart,
    Check as Check,
    CheckEnd as CheckEnd,
    Interval as Interval,
    Part as Part,
    Sentence as Sentence,
    Style as Style,
    Table as Table,
    Text as Text,
    View as View,
    Words as Words,
    console as console,
    print_view as print_view,
    text_of as text_of,
    words_of as words_of,
)
