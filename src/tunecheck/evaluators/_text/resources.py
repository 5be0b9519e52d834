"""Reads the data files that ship beside these modules, from a folder or from a zipped package."""

from __future__ import annotations

from importlib.resources import files


def read_data(name: str) -> bytes:
    """The content of one data file."""
    return files(__package__).joinpath("data", name).read_bytes()


def read_lines(name: str) -> list[str]:
    """The lines of one data file."""
    return read_data(name).decode("utf-8").splitlines()
