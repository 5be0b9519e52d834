"""Java and JavaScript calls in a model's text, parsed by tree-sitter grammars: as the leaderboard does, and strictly.

The leaderboard reads one call, `[A.f(a=new int[]{1}, b="x")]`, and converts each argument to text: string literals lose
their quotes, calls stay unchanged, and other Java values lose their white space. The strict mode reads several calls:

    source_calls('[f(a=new int[]{1, 2}, b="x")]', "java")             f with the texts 'new int[]{1, 2}' and '"x"'
    source_value('new ArrayList<>(List.of("a,b", "c"))', "java")   ['a,b', 'c']
    source_value("{a: [1, 2], 'b c': null}", "javascript")         {'a': [1, 2], 'b c': None}

Values that are not literals (names, operations, other calls) stay text. No code is run.

Limits keep tree-sitter's time and the interpreter's stack small: 10,000 characters, 1,000 tokens, 300 levels. A longer
text is unreadable in calls and stays text as a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from tunecheck import MissingExtraError
from tunecheck.calls import FunctionCall, Reading, UnreadableError
from tunecheck.plugins import JSON

if TYPE_CHECKING:
    from tree_sitter import Node


_LONGEST = 10_000  # longest text, in characters, that is parsed
_MOST_TOKENS = 1_000  # words, numbers and punctuation marks: on invalid text, the parser's time grows with their cube
_DEEPEST = 300  # levels of a parsed text: each level needs two stack frames of the interpreter

# A word, a number or a punctuation mark: f, (, a, =, 1 and ) in f(a=1).
_TOKEN = re.compile(r"[^\W\d]+|\d+|[^\w\s]", re.ASCII)
_LITERALS = ("string_literal", "character_literal")


def decode_source_text(text: str, language: str) -> list[object]:
    """Return the first call in a text as `[{"f": {"a": "1"}}]`, or `[None]` if there is no call.

    Raises:
        UnreadableError: the text is not valid in the language.
    """
    text = text.strip("`\n ")
    source = text.removeprefix("[").removesuffix("]")
    nodes = nodes_of(parse_source(source, java=language == "java"))
    if any(node.is_error for node in nodes):
        raise UnreadableError(f"the text is not readable as {language}: {source[:40]!r}")
    return [_JavaText(source).call(nodes) if language == "java" else _javascript_call(nodes[0])]


def parse_source(source: str, *, java: bool) -> Node:
    """Return the syntax tree of a text. Invalid parts become error nodes in the tree.

    Raises:
        UnreadableError: The text is too long to be parsed, or is not Unicode.
        MissingExtraError: The language's grammar is not installed.
    """
    if len(source) > _LONGEST:
        raise UnreadableError(f"the text with calls has {len(source)} characters, but at most {_LONGEST} are read")

    if sum(1 for _ in _TOKEN.finditer(source)) > _MOST_TOKENS:
        raise UnreadableError(f"the calls are too long: over {_MOST_TOKENS:,} words, numbers and punctuation marks")

    try:
        from tree_sitter import Language, Parser  # imported here: only rows in Java or JavaScript need it

        grammar = import_module("tree_sitter_java" if java else "tree_sitter_javascript")
    except ModuleNotFoundError:
        raise MissingExtraError("reading calls in Java or JavaScript", "bfcl") from None

    try:
        encoded = source.encode()
    except UnicodeEncodeError:
        raise UnreadableError("the text with calls has half of a surrogate pair: invalid Unicode") from None
    return Parser(Language(grammar.language())).parse(encoded).root_node


def nodes_of(root: Node) -> list[Node]:
    """Return the nodes of a tree, each before its children, in the order of their text.

    Raises:
        UnreadableError: the tree is deeper than `_DEEPEST`.
    """
    nodes, unvisited = [], [(root, 0)]
    while unvisited:
        node, depth = unvisited.pop()
        if depth > _DEEPEST:
            raise UnreadableError(f"the text with calls is nested deeper than {_DEEPEST} levels")
        nodes.append(node)
        unvisited += [(child, depth + 1) for child in reversed(node.children)]
    return nodes


def _arguments(
    nodes: Sequence[Node], text_of: Callable[[Node], str], value_of: Callable[[Node], str], word_types: tuple[str, ...]
) -> dict[str, str]:
    """Return the named arguments as text. A bare word gets the name "None", as on the leaderboard.

    `f(x, a=1)` has the arguments {"None": "x", "a": "1"}.

    `text_of` gives a node's source text, and `value_of` an argument's value as text. `word_types` are the node types of
    bare words; other arguments without a name are ignored.

    Raises:
        UnreadableError: an argument is given twice.
    """
    arguments: dict[str, str] = {}
    for node in nodes:
        is_named = node.type == "assignment_expression"
        if is_named or node.type in word_types:
            name = text_of(node.children[0]) if is_named else "None"
            if name in arguments:
                raise UnreadableError(f"the argument {name[:60]!r} is given twice")
            arguments[name] = value_of(node.children[2]) if is_named else text_of(node)
    return arguments


def _javascript_call(root: Node) -> object:
    """Return the first call of a JavaScript text as `{"f": {"a": "1"}}`, or None if there is none."""
    statements = [statement for statement in root.children if statement.type == "expression_statement"]
    expressions = (expression for statement in statements for expression in statement.children)
    call = next((expression for expression in expressions if expression.type == "call_expression"), None)
    if call is None:
        return None

    function, arguments, *_ = call.children
    word_types = ("identifier", "true")  # quirk: `true` counts as a bare word, `false` does not
    return {_text(function): _arguments(arguments.children, _text, _javascript_value, word_types)}


def _javascript_value(node: Node) -> str:
    """Return the text of a value, without the quotes of a string."""
    text = _text(node)
    return text[1:-1] if text[:1] in ('"', "'") and text[0] == text[-1] else text


class _JavaText:
    """Java source code with the leaderboard's reading of calls and values as text."""

    def __init__(self, source: str) -> None:
        self._source = source

    def call(self, nodes: Sequence[Node]) -> object:
        """Return the first call among the nodes as `{"A.f": {"a": "1"}}`, or None if there is none."""
        call = next((node for node in nodes if node.type == "method_invocation"), None)
        if call is None:
            return None

        parts = [call.child_by_field_name(field) for field in ("object", "name")]
        name = ".".join(self._source_text(part) for part in parts if part)

        arguments = call.child_by_field_name("arguments")
        children = arguments.children if arguments else ()
        word_types = ("identifier", "class_literal")
        return {name: _arguments(children, self._source_text, self._value, word_types)}

    def _source_text(self, node: Node) -> str:
        """Return the text between the byte offsets of a node, counted in characters."""
        return self._source[node.start_byte : node.end_byte]  # quirk: byte offsets count characters

    def _value(self, node: Node) -> str:
        """Return a literal without its quotes, and any other value as compact text."""
        return self._source_text(node)[1:-1] if node.type in _LITERALS else self._compact(node)

    def _compact(self, node: Node) -> str:
        """Return the text of a value without white space between words. Literals and calls stay unchanged.

        ` new ArrayList<>( Arrays.asList("a" , "b"))` becomes `new ArrayList<>(Arrays.asList("a" , "b"))`.
        """
        if node.type in (*_LITERALS, "class_literal", "method_invocation") or not node.children:
            return self._source_text(node)

        if node.type == "array_creation_expression":
            return f"new {self._field_text(node, 'type')}[]{self._field_text(node, 'value')}"

        if node.type == "object_creation_expression":
            arguments = node.child_by_field_name("arguments")
            children = arguments.children if arguments else ()
            values = [self._compact(child) for child in children if child.type not in ("(", ",", ")")]
            return f"new {self._field_text(node, 'type')}({', '.join(values)})"

        return "".join(map(self._compact, node.children))

    def _field_text(self, node: Node, field: str) -> str:
        """Return the compact text of a node's field, or raise UnreadableError if it is missing."""
        part = node.child_by_field_name(field)
        if part is None:
            raise UnreadableError(f"the Java expression {self._source_text(node)[:40]!r} has no {field}")
        return self._compact(part)


_MOST_DIGITS = 4_000  # Python converts texts of up to 4,300 digits to integers

# "a\"b" and 'a' of one line, or `a` of several lines. Possessive quantifiers (*+) keep the time linear.
_STRING = re.compile(r"\"((?:[^\"\\\n]++|\\.)*+)\"|'((?:[^'\\\n]++|\\.)*+)'|`((?:[^`\\]++|\\.)*+)`", re.DOTALL)

# 12, -2e3, 1_000, 0x1F, 10L, 1.5f and 5n. The suffix is the group.
_NUMBER = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F_]++|(?:\d[\d_]*+\.?[\d_]*+|\.\d[\d_]*+)(?:[eE][+-]?\d++)?)([lLfFdDn]?)(?![\w.])"
)

_WORD = re.compile(r"(true|false|null|undefined|None)(?![\w.(])")

# \u0041, \x41, \n, and a backslash before any other character, which stands for that character.
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "\n": ""}

# The beginnings of constructors, up to the opening bracket: new ArrayList<String>(, Arrays.asList(, Map.of(, Array.of(.
_GENERIC = r"(?:\s*<[\w\s,.<>?\[\]]*>)?"
_NEW = r"new\s+(?:java\.util\.)?"
_JAVA_LIST = re.compile(
    rf"(?:{_NEW}(?:Array|Linked)List{_GENERIC}|(?:java\.util\.)?(?:Arrays\.asList|(?:List|Set)\.of|Stream\.of))\s*\("
)
_JAVA_MAP = re.compile(rf"(?:{_NEW}(?:Linked)?(?:Hash|Tree)(?:Map|table){_GENERIC}|(?:java\.util\.)?Map\.of)\s*\(")
_JS_ARRAY = re.compile(r"new\s+Array\s*\(|Array\.of\s*\(")

# A whole answer in a Markdown code block.
_FENCE = re.compile(r"\A```[\w+-]*\s*\n(.*?)\n?```\s*\Z", re.DOTALL)
_NEW_WORD = re.compile(r"^new\s+")


def source_value(text: str, language: str) -> object:
    """Return the value of a literal in "java" or "javascript", or the text itself if it is not a literal."""
    java = language == "java"
    body = text.strip().removesuffix(";")
    try:
        # A grammar reads statements, so the literal becomes the value of an assignment.
        statement = _statement(f"Object x = {body};" if java else f"x = {body};", java=java)
        parts = statement.named_children
        parts_expected = 2 if java else 1  # in Java, a type stands before the assignment of x
        if len(parts) == parts_expected and parts[-1].type in ("variable_declarator", "assignment_expression"):
            return _literal_value(parts[-1].named_children[-1])
    except (UnreadableError, ValueError):
        pass
    return text


def _statement(source: str, *, java: bool) -> Node:
    """Return the node of the only statement of a text; raise UnreadableError if it is not one valid statement."""
    root = parse_source(source, java=java)
    if len(root.named_children) != 1 or any(node.is_error or node.is_missing for node in nodes_of(root)):
        raise UnreadableError(f"the answer is not a list of calls in {'java' if java else 'javascript'}")
    return root.named_children[0]


def _literal_value(node: Node) -> object:
    """Return the value of a literal, or the source text of any other expression.

    Raises:
        UnreadableError: a number is too long, or an object or a collection has other parts than values.
        ValueError: a map is made from an odd number of values.
    """
    text = _text(node)
    for pattern, read in ((_STRING, _unescape), (_NUMBER, _number), (_WORD, _constant)):
        literal = pattern.fullmatch(text)
        if literal is not None:
            return read(literal)

    match node.type:
        case "array" | "array_initializer":
            return _items(node)
        case "array_creation_expression" if value := node.child_by_field_name("value"):
            return _items(value)
        case "object":
            return dict(map(_member, _parts(node)))
        case "method_invocation" | "object_creation_expression" | "new_expression" | "call_expression":
            return _constructed(node, text)
    return text


def _constructed(node: Node, text: str) -> object:
    """Return the list or map that a call such as `List.of(1)` or `new HashMap<>()` creates, or another call's text."""
    arguments = node.child_by_field_name("arguments")
    if arguments is None:
        return text

    head = f"{(node.text or b'')[: arguments.start_byte - node.start_byte].decode()}("
    if not any(pattern.fullmatch(head) for pattern in (_JAVA_LIST, _JAVA_MAP, _JS_ARRAY)):
        return text

    # A Java collection may have more elements in a block, as in `new ArrayList<>(List.of(1)) {{ add(2); }}`.
    items = _items(arguments)
    if _JS_ARRAY.fullmatch(head):
        return items

    inner = items[0] if len(items) == 1 else None  # the argument in `new ArrayList<>(List.of(1))`
    if _JAVA_LIST.fullmatch(head):
        elements = inner if isinstance(inner, list) else items
        return [*elements, *(value for (value,) in _added_items(node, "add", 1))]

    if not isinstance(inner, dict):  # `Map.of("a", 1, "b", 2)`
        inner = {str(name): value for name, value in zip(items[::2], items[1::2], strict=True)}
    return {**inner, **{str(name): value for name, value in _added_items(node, "put", 2)}}


def _added_items(node: Node, method: str, count: int) -> Iterator[list[object]]:
    """Yield the arguments of the calls of `method` in a block `{{ add(1); add(2); }}`. Each call has `count` arguments.

    Raises:
        UnreadableError: the block contains anything else.
    """
    # The outer braces are the body of a class, the inner ones a block of statements.
    blocks = [block for body in _parts(node) if body.type == "class_body" for block in _parts(body)]
    statements = [statement for block in blocks for statement in _parts(block)]
    for statement in statements:
        call = statement.named_children[0] if statement.named_children else statement
        name, arguments = call.child_by_field_name("name"), call.child_by_field_name("arguments")
        values = [] if arguments is None else _items(arguments)

        if name is None or _text(name) != method or len(values) != count:
            raise UnreadableError("the {{ }} block of a Java collection may only add items")
        yield values


def _member(pair: Node) -> tuple[str, object]:
    """Return the name and value of a member of a JavaScript object, or raise UnreadableError for other members."""
    key, value = pair.child_by_field_name("key"), pair.child_by_field_name("value")
    if key is None or value is None or key.type == "computed_property_name":
        raise UnreadableError("a JavaScript object may contain only members with a name and a value")
    quoted = _STRING.fullmatch(_text(key))
    name = _unescape(quoted) if quoted else _text(key)
    return name, _literal_value(value)


def _items(node: Node) -> list[object]:
    """Return the values of a node's parts."""
    return [_literal_value(child) for child in _parts(node)]


def _parts(node: Node) -> list[Node]:
    """Return the named children of a node without comments."""
    return [child for child in node.named_children if "comment" not in child.type]


def _text(node: Node) -> str:
    """Return the source text of a node."""
    return (node.text or b"").decode()


def _unescape(match: re.Match[str]) -> str:
    """Return the text of a matched string literal, with its escapes replaced."""
    inner = next(group for group in match.groups() if group is not None)

    def plain(escape: re.Match[str]) -> str:
        code = escape[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(plain, inner)


def _number(match: re.Match[str]) -> int | float:
    """Return the value of a matched number. The suffixes f and d make a float, as in Java.

    Raises:
        UnreadableError: the number has too many digits to convert.
    """
    digits = match[0].replace("_", "").removesuffix(match[1])
    if len(digits) > _MOST_DIGITS:
        raise UnreadableError(f"a number has more than {_MOST_DIGITS} digits")
    if digits.lstrip("+-")[:2].lower() == "0x":
        return int(digits, 16)
    is_whole = digits.lstrip("+-").isdigit() and match[1] not in ("f", "F", "d", "D")
    return int(digits) if is_whole else float(digits)


def _constant(match: re.Match[str]) -> bool | None:
    """Return the value of a matched word: true and false as booleans, otherwise None."""
    return {"true": True, "false": False}.get(match[0])


def source_calls(text: str, language: str) -> Reading:
    """Return the calls in a Java or JavaScript text, or the problem if it is not a list of calls.

    Brackets and a Markdown fence around the calls are optional. Arguments stay source code.

    Raises:
        MissingExtraError: The language's grammar is not installed.
    """
    body = text.strip()
    fenced = _FENCE.match(body)
    body = (fenced[1].strip() if fenced else body.strip("`")).removesuffix(";")
    body = body[1:-1] if body.startswith("[") and body.endswith("]") else body

    # The calls become the elements of an array, because a grammar reads statements.
    java = language == "java"
    try:
        nodes = nodes_of(_statement(f"Object[] x = {{{body}}};" if java else f"[{body}];", java=java))
    except UnreadableError as error:
        return Reading(problem=str(error))

    calls: list[FunctionCall] = []
    for node in _parts(next(node for node in nodes if node.type in ("array_initializer", "array"))):
        arguments = node.child_by_field_name("arguments")
        if arguments is None:
            return Reading(problem="an item of the answer is not a call")
        head = (node.text or b"")[: arguments.start_byte - node.start_byte].decode().strip()
        calls.append(FunctionCall(_NEW_WORD.sub("", head), _argument_texts(arguments)))
    return Reading(tuple(calls))


def _argument_texts(arguments: Node) -> dict[str, JSON]:
    """Return the arguments as text by name. Positional arguments are named by their position: "0", "1", …

    `(1, b="x")` gives {"0": "1", "b": '"x"'}.
    """
    texts: dict[str, JSON] = {}
    for node in _parts(arguments):
        name, value = node.child_by_field_name("left"), node.child_by_field_name("right")
        if node.type != "assignment_expression" or name is None or value is None:
            texts[str(len(texts))] = _text(node)
        else:
            texts[_text(name)] = _text(value)
    return texts
