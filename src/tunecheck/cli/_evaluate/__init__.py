"""`tunecheck evaluate` and `tunecheck score`: options, prepared runs, dry run, and the summary at the end."""
