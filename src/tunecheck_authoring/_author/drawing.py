"""The graph of functions as a Mermaid diagram: a subgraph for each service, an arrow for what is passed on."""

from __future__ import annotations

from tunecheck_authoring._author.files import GraphFile


def drawing(graph: GraphFile) -> str:
    """Return the diagram's text; an arrow is labelled with the results that it carries."""
    ids = {name: f"f{number}" for number, name in enumerate(graph.functions)}
    lines = ["flowchart LR"]
    for simulator in dict.fromkeys(function.simulator for function in graph.functions.values()):
        names = [name for name, function in graph.functions.items() if function.simulator == simulator]
        lines += [f'  subgraph "{simulator}"', *(f'    {ids[name]}["{name}"]' for name in names), "  end"]
    carried: dict[tuple[str, str], list[str]] = {}
    for edge in graph.edges:
        (source, _, result), target = edge.source.partition("."), edge.target.partition(".")[0]
        if source in ids and target in ids:
            carried.setdefault((source, target), []).append(result)
    lines += [
        f'  {ids[source]} -- "{", ".join(dict.fromkeys(results))}" --> {ids[target]}'
        for (source, target), results in carried.items()
    ]
    return "\n".join([*lines, ""])
