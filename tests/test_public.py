"""Public names document what they raise."""

import ast
import inspect
import textwrap
from types import ModuleType

import pytest

import steinflow as sf
from steinflow import estimators

BUILDERS = ("__init__", "__post_init__", "__check_init__", "__new__")  # their errors are in the docstring of the class


def public():
    """Public functions, classes and their methods by name, each with the docstrings that may say what it raises."""
    namespaces = [sf, estimators, *(value for name in sf.__all__ if isinstance(value := getattr(sf, name), ModuleType))]
    for namespace in namespaces:
        for name in namespace.__all__:
            value = getattr(namespace, name)
            if not getattr(value, "__module__", "").startswith("steinflow."):
                continue
            if inspect.isclass(value):
                yield from of_class(value)
            elif inspect.isfunction(value):
                yield f"{value.__module__}.{name}", value, inspect.getdoc(value)


def of_class(cls):
    for name, member in vars(cls).items():
        function = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "__func__", member))
        own = inspect.isfunction(function) and function.__code__.co_filename == inspect.getsourcefile(cls)
        if own and (name in BUILDERS or not name.startswith("_")):
            documented = cls if name in BUILDERS else getattr(cls, name)
            yield f"{cls.__module__}.{cls.__name__}.{name}", function, inspect.getdoc(documented)


def raises(function) -> bool:
    """Whether a function itself raises an error; functions inside it are called later, or by others."""
    pending = [ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]]
    while pending:
        for node in ast.iter_child_nodes(pending.pop()):
            if isinstance(node, ast.Raise) and node.exc is not None:
                return True
            if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
                pending.append(node)
    return False


RAISING = {name: documentation for name, function, documentation in public() if raises(function)}


def test_errors_are_found():
    assert len(RAISING) > 60


@pytest.mark.parametrize("name", RAISING)
def test_what_is_raised_is_documented(name):
    assert "Raises:" in RAISING[name]
