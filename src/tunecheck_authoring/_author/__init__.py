"""`tunecheck datasets author`: validated conversations from services that stand as simulators, made in stages.

world     the services, their functions, what conversations start from           world.yaml
graph     which result, or part of the state, feeds which parameter              graph.yaml
tasks     the calls of each turn, sampled with a seed, and the user's words      tasks.jsonl
variants  the same with something missing, added or changed                      variants.jsonl
rows      those that hold under trial; the others with the reason                the data set, rejected.jsonl

`pipeline.author` runs them; `files` describes what they write.
"""
