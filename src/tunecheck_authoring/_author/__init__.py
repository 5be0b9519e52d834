"""`tunecheck datasets author`: make validated conversations with simulated services, in stages.

world     the services, their functions, the initial states of conversations     world.yaml
graph     which result, or part of the state, feeds which parameter              graph.yaml
tasks     the calls of each turn, sampled with a seed, and the user's words      tasks.jsonl
variants  conversations with something missing, added or changed                 variants.jsonl
rows      valid rows; rejected rows with the reasons                             the data set, rejected.jsonl

`pipeline.author` runs the stages; `rows` words tasks, makes their variants and tries each row; `files` defines the
structure of the stages' files.
"""
