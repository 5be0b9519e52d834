"""How models write calls and thoughts: wire formats of APIs, and what each model family emits as text.

Everything that reads calls goes through `_reading.read_calls`.
"""
