"""Pages of results as data: tables, sentences and figures made once, and the writers that print them.

View(title, parts, notes, checks, facts)     # what is said; parts are paragraphs, tables and charts
print_view(view, console)                    # to a terminal; markdown(view), html(view), junit(view, seconds)
"""

from tunecheck.views._html import html as html
from tunecheck.views._junit import junit as junit
from tunecheck.views._markdown import markdown as markdown
from tunecheck.views._model import (
    SIMULATED as SIMULATED,
    Cell as Cell,
    Chart as Chart,
    Check as Check,
    Interval as Interval,
    Part as Part,
    Sentence as Sentence,
    Style as Style,
    Table as Table,
    Text as Text,
    View as View,
    Words as Words,
)
from tunecheck.views._terminal import console as console, print_view as print_view
