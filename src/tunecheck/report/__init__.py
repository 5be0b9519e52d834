"""A run as one HTML file that people look at, and the folder of runs as pages on this machine.

write_report(run, out, against=[…])       # the file: it loads nothing and needs no server
view(results_dir, port=0)                 # the folder of runs, with the same pages, on this machine

A plug-in's panel reads rows with a PanelReader, which gives PanelRows; `as_json` and `cut` write values in bounds.
"""

from tunecheck.report._panels import PanelReader as PanelReader, PanelRow as PanelRow
from tunecheck.report._texts import as_json as as_json, cut as cut
