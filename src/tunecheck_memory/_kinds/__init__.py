"""The shipped kinds of memory tests, and the parts that they share."""
