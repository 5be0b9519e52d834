"""Data sets: rows from files, frames and iterables, the defaults they declare, and converters of other formats."""

from tunecheck.datasets.conversion import ConversionReport, UnreadableConversation, convert_glaive
from tunecheck.datasets.defaults import DatasetDefaults
from tunecheck.datasets.reading import Data, Dataset, Scan, open_dataset

__all__ = [
    "ConversionReport",
    "Data",
    "Dataset",
    "DatasetDefaults",
    "Scan",
    "UnreadableConversation",
    "convert_glaive",
    "open_dataset",
]
