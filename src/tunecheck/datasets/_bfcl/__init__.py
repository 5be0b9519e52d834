"""BFCL's data: fetched, unpacked, and read as data sets."""
