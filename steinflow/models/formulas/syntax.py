"""What a formula says: its response, its terms, and which group terms belong together.

Formulas are parsed by formulae, the library of bambi. Two things are added here. A block `(1 + x | g)` stays together,
since its effects are correlated; `(1 + x || g)` has independent ones, as in lme4. And errors say where they are.
"""

import contextlib
import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

_TILDE_AND_ONE = 2  # tokens that formulae inserts behind the tilde, for the intercept


class FormulaError(ValueError):
    """What is wrong with a formula or its table, in a sentence that says what to do."""


@contextlib.contextmanager
def as_formula_error() -> Iterator[None]:
    """Raise what is wrong with a family or its values as what is wrong with the formula."""
    try:
        yield
    except ValueError as error:
        raise FormulaError(str(error)) from error


@dataclasses.dataclass(frozen=True)
class Formula:
    """A parsed formula.

    Attributes:
        text: as the user wrote it.
        model: formulae's description of the terms on the right, without the response.
        response: formulae's term on the left.
        blocks: group terms that share a factor and a pair of brackets: their names, and whether they are correlated.
    """

    text: str
    model: Any
    response: Any
    blocks: tuple[tuple[tuple[str, ...], bool], ...]


def parse(text: str) -> Formula:
    """Return what a formula says.

    Raises:
        FormulaError: if it is no formula; the message shows the place.
    """
    try:
        from formulae import parser, scanner
        from formulae.resolver import Resolver, ResolverError
        from formulae.terms.terms import Model
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Formulas need formulae: pip install 'steinflow[formula]'.", name="formulae"
        ) from error
    if not isinstance(text, str) or text.count("~") != 1 or not text.split("~")[0].strip():
        raise FormulaError(f"A formula needs a response, one '~' and terms, such as 'y ~ x + (1 | g)'; got {text!r}.")
    plain, independent = _single_bars(text)
    try:
        reader = parser.Parser(scanner.Scanner(plain).scan())
    except scanner.ScanError as error:
        raise FormulaError(
            f"The formula {text!r} cannot be read: {error}. Put a name with characters other than letters, digits, "
            "dots and underscores, or with an underscore at its start, in backticks, and arithmetic in braces: {x**2}."
        ) from error
    try:
        tree = reader.parse()
    except parser.ParseError as error:
        raise FormulaError(_at_place(text, plain, reader, str(error))) from error
    if not reader.at_end():
        raise FormulaError(_at_place(text, plain, reader, "this does not belong here"))
    try:
        model = Resolver(tree).resolve()
        groups = [Resolver(node).resolve() for node in _bars(tree)]
    except (ResolverError, TypeError, ValueError, AttributeError) as error:
        reason = f"{error}".removesuffix(".")
        if "response term" in reason:
            reason = "its response must be one column, or one function such as log(y) or p(successes, trials)"
        raise FormulaError(f"The formula {text!r} cannot be understood: {reason}.") from error
    assert isinstance(model, Model)
    # In g/z, the terms g and g:z share what they know of g, which is to be coded in two ways.
    model.common_terms = [copy.deepcopy(term) for term in model.common_terms]
    response, model.response = model.response, None
    return Formula(text, model, response, _blocks(groups, independent))


def columns_of(part: Any) -> set[str]:
    """Return the columns that a model or a term of formulae names; it names every literal too, by an empty text."""
    return {str(name) for name in part.var_names if name}


def _single_bars(text):
    """Return the text with `|` in place of `||`, which formulae does not know, and for every bar whether it was one."""
    plain, independent, quote, position = "", [], None, 0
    while position < len(text):
        char = text[position]
        if quote is None and char == "|":
            double = text[position : position + 2] == "||"
            independent.append(double)
            plain += "| " if double else "|"
            position += 2 if double else 1
            continue
        if char in "'\"`":
            quote = char if quote is None else (None if quote == char else quote)
        plain += char
        position += 1
    return plain, independent


def _bars(node):
    """Yield the nodes of all bars, in the order of the text."""
    if hasattr(node, "operator") and hasattr(node, "left"):
        if node.operator.kind == "PIPE":
            yield node
            return
        yield from _bars(node.left)
        yield from _bars(node.right)
    elif hasattr(node, "expression"):
        yield from _bars(node.expression)


def _blocks(groups, independent):
    blocks, seen = [], set()
    for group, apart in zip(groups, independent, strict=True):
        terms = getattr(group, "group_terms", [group])
        for factor in dict.fromkeys(term.factor.name for term in terms):
            names = [term.name for term in terms if term.factor.name == factor and term.name not in seen]
            seen.update(names)
            if names:
                blocks.append((tuple(names), not apart))
    return tuple(blocks)


def _at_place(text, plain, reader, reason):
    """Return a message that points at the token where the parser stopped."""
    tilde = next(i for i, token in enumerate(reader.tokens) if token.kind == "TILDE")
    written = [token for i, token in enumerate(reader.tokens) if not tilde < i <= tilde + _TILDE_AND_ONE]
    number = reader.current if reader.current <= tilde else max(tilde + 1, reader.current - _TILDE_AND_ONE)
    position = 0
    for token in written[:number]:
        position = plain.index(token.lexeme, position) + len(token.lexeme)
    rest = plain[position:]
    position += len(rest) - len(rest.lstrip())
    where = "at its end" if position >= len(plain.rstrip()) else f"at position {position + 1}"
    return f"The formula has an error {where}: {reason.rstrip('.')}.\n  {text}\n  {' ' * position}^"
