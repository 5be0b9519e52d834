"""BFCL's data: download, files, categories and prompts, and the rows as data sets (`loader`)."""
