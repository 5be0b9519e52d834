"""Write a run as one HTML file, and serve a folder of runs as pages on this machine.

write_report(run, out, against=[…])       # a file that loads nothing and needs no server
view(results_dir, port=0)                 # the folder of runs, with the same pages, on this machine

A plug-in's panel reads rows with a PanelReader, which returns PanelRows; `as_json` and `cut` limit the length of
values. `serve_pages` serves a plug-in's own pages; `running` runs another server.
"""

from tunecheck._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
