"""The graph of functions as an SVG picture: services as columns, functions as boxes, edges as curves."""

from __future__ import annotations

from html import escape

from tunecheck_authoring._author.files import GraphFile

_COLUMN, _LINE, _BOX, _TOP, _MARGIN = 330, 26, 230, 60, 20


def drawing(graph: GraphFile) -> str:
    """The picture; each edge between two functions once, what it carries in its tooltip."""
    columns: dict[str, list[str]] = {}
    for name, function in graph.functions.items():
        columns.setdefault(function.simulator, []).append(name)
    places = {
        name: (_MARGIN + _COLUMN * at, _TOP + _LINE * line)
        for at, names in enumerate(columns.values())
        for line, name in enumerate(names)
    }
    carried: dict[tuple[str, str], list[str]] = {}
    for edge in graph.edges:
        ends = edge.source.partition(".")[0], edge.target.partition(".")[0]
        if ends[0] in places and ends[1] in places:
            carried.setdefault(ends, []).append(f"{edge.source} → {edge.target}")
    width = _MARGIN * 2 + _COLUMN * max(1, len(columns))
    height = _TOP + _LINE * max([1, *map(len, columns.values())]) + _MARGIN
    heads = [
        f'<text x="{_MARGIN + _COLUMN * at}" y="36" font-weight="bold">{escape(name)}</text>'
        for at, name in enumerate(columns)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
            ' font-family="sans-serif" font-size="12" role="img" aria-label="Which results feed which functions">',
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            *heads,
            *(_curve(places[source], places[target], texts) for (source, target), texts in carried.items()),
            *(_box(name, place, graph) for name, place in places.items()),
            "</svg>",
            "",
        ]
    )


def _box(name: str, place: tuple[int, int], graph: GraphFile) -> str:
    function, (left, top) = graph.functions[name], place
    fill = "#eee" if function.problem else "#fde9d0" if function.writes else "#dcebfa"
    title = function.problem or ("changes the state" if function.writes else "reads")
    return (
        f'<g><title>{escape(f"{name}: {title}")}</title><rect x="{left}" y="{top}" width="{_BOX}" height="{_LINE - 6}" '
        f'rx="4" fill="{fill}" stroke="#888"/><text x="{left + 8}" y="{top + 14}">{escape(name)}</text></g>'
    )


def _curve(source: tuple[int, int], target: tuple[int, int], texts: list[str]) -> str:
    middle = (_LINE - 6) // 2
    left, top, end = source[0] + _BOX, source[1] + middle, target[1] + middle
    right = target[0] + (_BOX if source[0] == target[0] else 0)
    bend = 20 + abs(end - top) // 8
    second = right + bend if source[0] == target[0] else right - bend
    return (
        f'<path d="M{left},{top} C{left + bend},{top} {second},{end} {right},{end}" fill="none" stroke="#3572b0" '
        f'stroke-opacity="0.45"><title>{escape("; ".join(texts))}</title></path>'
    )
