"""`tunecheck bfcl`: run, score and show."""
