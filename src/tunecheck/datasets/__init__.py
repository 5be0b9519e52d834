"""Data sets: rows from files, frames and iterables, the defaults they declare, and converters of other formats."""

from tunecheck.datasets.defaults import DatasetDefaults
from tunecheck.datasets.reading import Data, Dataset, Scan, open_dataset

__all__ = ["Data", "Dataset", "DatasetDefaults", "Scan", "open_dataset"]
