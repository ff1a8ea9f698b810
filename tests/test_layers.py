"""Each module imports only from those above it: the order of docs/architecture.md."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "steinflow"

# From the top down; a package stands for all of its modules.
CORE = [
    "typing",
    "normals",
    "sharding",
    "transforms",
    "batches",
    "streams",
    "targets",
    "flat_targets",
    "bandwidths",
    "kernels",
    "stein",
    "approximations",
    "exploration",
    "metrics",
    "optimizers",
    "diagnostics",
    "groups",
    "verdicts",
    "refinement",
    "inference_data",
    "summaries",
    "structures",
    "result",
    "methods",
    "stopping",
    "run",
    "fingerprints",
    "checkpoints",
    "memory",
    "fit",
]
LAYERS = [
    *CORE,
    "models",
    "frontends",
    "estimators",
    "caches",
    "datasets",
    "plots",
    "tabular",
    "report",
    "__init__",  # the public names
    "experiments",
    "cli",
    "__main__",
]
# Slow to import, or installed by an extra.
OPTIONAL = [
    "arviz",
    "blackjax",
    "flax",
    "h5netcdf",
    "matplotlib",
    "orbax",
    "pandas",
    "plotly",
    "pooch",
    "pyarrow",
    "pymc",
    "rich",
    "sklearn",
    "typer",
]

MODULES = {path.relative_to(PACKAGE).with_suffix("").as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}


def layer(module: str) -> str:
    return module.split("/")[0]


def imports(node: ast.AST, *, lazy: bool) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import, with those inside functions only if `lazy`."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import():
                yield from ((child.lineno, alias.name) for alias in child.names)
            case ast.ImportFrom():
                assert child.level == 0, f"line {child.lineno}: imports are absolute"
                yield from ((child.lineno, f"{child.module}.{a.name}") for a in child.names)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() if not lazy:
                pass
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) if not lazy:
                pass
            case _:
                yield from imports(child, lazy=lazy)


def internal(name: str) -> str | None:
    """The layer that a dotted name belongs to, or None outside steinflow."""
    root, *rest = name.split(".")
    if root != "steinflow":
        return None
    return rest[0] if rest and rest[0] in map(layer, MODULES) else "__init__"


@pytest.mark.parametrize("module", MODULES)
def test_layers(module):
    assert layer(module) in LAYERS, f"steinflow/{module}.py has no place in LAYERS: add it"
    allowed = LAYERS[: LAYERS.index(layer(module)) + 1]
    tree = ast.parse(MODULES[module].read_text())
    wrong = [
        f"steinflow/{module}.py:{line} imports {name}, which is below it"
        for line, name in imports(tree, lazy=True)
        if (target := internal(name)) and target not in allowed
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("module", [m for m in MODULES if layer(m) in CORE])
def test_core_imports_nothing_optional(module):
    tree = ast.parse(MODULES[module].read_text())
    wrong = [
        f"steinflow/{module}.py:{line} imports {name}: move it into the function that needs it"
        for line, name in imports(tree, lazy=False)
        if name.split(".")[0] in OPTIONAL
    ]
    assert not wrong, "\n".join(wrong)
