"""Simulators that tables in JSON files describe: `datasets author` writes them."""
