"""Data sets: rows from files, frames and iterables, the defaults they declare, and converters of other formats."""
