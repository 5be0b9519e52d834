"""A benchmark with two rows: does a model greet people by their name?"""
