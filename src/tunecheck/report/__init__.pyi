"""The public names of this package and their homes; `__init__.py` loads them from there."""

from ._details import PanelReader as PanelReader, PanelRow as PanelRow
from ._local_pages import (
    NOT_THIS_MACHINE as NOT_THIS_MACHINE,
    check_token as check_token,
    is_of_this_machine as is_of_this_machine,
    refuse_other_hosts as refuse_other_hosts,
    running as running,
    serve_pages as serve_pages,
    stopped_by_signals as stopped_by_signals,
)
from ._page import as_json as as_json, cut as cut
