"""The model families that are known, as tables: one profile says how a family marks and writes calls and thoughts."""
