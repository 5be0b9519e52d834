"""`tunecheck datasets`: convert, get, check."""
