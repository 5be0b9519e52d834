"""A judge held against labels that people gave: how far they agree."""
