"""Trees of arrays as files hold them: a name for every array, and the containers around them in JSON."""

from collections.abc import Iterator, Mapping
from typing import Any

import jax

from steinflow.results.summary import named_arrays
from steinflow.typing import PyTree


def variables(tree) -> list[tuple[str, Any]]:
    """Every array of a tree with the name of its variable in a file: unique, and without a slash."""
    taken = {"chain", "draw", "record"}  # names of axes
    variables = []
    for name, leaf in named_arrays(tree):
        name = name.replace("/", ".")
        while name in taken:
            name += "_"
        taken.add(name)
        variables.append((name, leaf))
    return variables


def describe(tree, names: Iterator[str] | None = None):
    """Describe the containers of a tree in JSON; leaves are the names of their variables."""
    names = (name for name, _ in variables(tree)) if names is None else names
    if tree is None:
        return {"kind": "none", "children": []}
    one_level = jax.tree_util.default_registry.flatten_one_level_with_keys(tree)
    if one_level is None:
        return next(names)
    children = []
    for entry, child in one_level[0]:
        key = entry.key if isinstance(entry, jax.tree_util.DictKey) and isinstance(entry.key, int | str) else None
        key = jax.tree_util.keystr((entry,), simple=True) if key is None else key
        children.append([key, describe(child, names)])
    kind = {list: "list", tuple: "tuple"}.get(type(tree), "dict")
    return {"kind": kind, "children": children}


def rebuild(structure, arrays: Mapping[Any, Any]) -> PyTree:
    """Return the tree that `describe` described, with these arrays."""
    if isinstance(structure, str):
        return arrays[structure]
    children = {key: rebuild(child, arrays) for key, child in structure["children"]}
    match structure["kind"]:
        case "none":
            return None
        case "dict":
            return children
        case "list":
            return list(children.values())
        case _:
            return tuple(children.values())
