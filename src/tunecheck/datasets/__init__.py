"""Data sets: rows from files, frames and iterables, the defaults they declare, and converters of other formats."""

from tunecheck.datasets._defaults import DatasetDefaults
from tunecheck.datasets._reading import Dataset, open_dataset

__all__ = ["Dataset", "DatasetDefaults", "open_dataset"]
