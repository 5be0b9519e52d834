"""BFCL's data: fetched (`download`), its files and categories, its prompts, and its rows as data sets (`loader`)."""
