"""`tunecheck evaluate` and `tunecheck score`: options, job, dry run, and the summary at the end."""
