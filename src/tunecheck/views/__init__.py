"""Pages of results as data (sentences, tables and charts), and their writers for each output format.

View(title, parts, notes, checks)            # parts are paragraphs, tables and charts
print_view(view, console)                    # to a terminal; markdown(view), html(view), junit(view, seconds)
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
