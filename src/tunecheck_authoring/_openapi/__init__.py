"""OpenAPI files (2.0, 3.0, 3.1) as simulators: operations become functions that work on records."""
