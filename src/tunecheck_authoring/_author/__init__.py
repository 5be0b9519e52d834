"""`tunecheck datasets author`: validated conversations from services that stand as simulators, made in stages.

world     the services, their functions, what conversations start from           world.yaml
graph     which result, or part of the state, feeds which parameter              graph.yaml
paths     which calls a conversation makes, sampled with a seed                  paths.jsonl
truth     the same calls executed: results and states                            truth.jsonl
tasks     what the user says in each turn                                        tasks.jsonl
variants  the same with something missing, added or changed                      variants.jsonl
rows      those that hold under trial; the others with the reason                the data set, rejected.jsonl

`pipeline.author` runs them; `files` describes what they write.
"""
