"""A run as one HTML file that people look at, and the folder of runs as pages on this machine.

write_report(run, out, against=[…])       # the file: it loads nothing and needs no server
view(results_dir, port=0)                 # the folder of runs, with the same pages, on this machine

A plug-in's panel reads rows with a PanelReader, which gives PanelRows; `as_json` and `cut` write values in bounds.
A plug-in's own pages are served by `serve_pages`, behind `guarded`; another server runs with `running`.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
