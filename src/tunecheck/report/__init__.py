"""A run as one HTML file that people look at, and the folder of runs as pages on this machine.

write_report(run, out, against=[…])       # the file: it loads nothing and needs no server
view(results_dir, port=0)                 # the folder of runs, with the same pages, on this machine
"""
