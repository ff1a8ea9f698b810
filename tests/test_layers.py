"""The order of the folders: each imports only from itself and from those above it, also inside functions.

And that tests mirror the package.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from steinflow.stein import kernels

PACKAGE = Path(__file__).parents[1] / "steinflow"
ORDER = """
    typing devices targets stein methods results inference models estimators tables __init__ paper cli __main__
""".split()  # noqa: SIM905
# Modules without a test file of their name, and why.
_EXPERIMENTS = """
    covertype covertype_page expectations fits logistic networks networks_page parts toy uncertainty workers
""".split()  # noqa: SIM905
ELSEWHERE = {
    "cli/__main__.py": "it only calls the command line",
    "typing.py": "names of types do nothing",
    **{f"paper/{name}.py": "tests/paper/test_experiments.py runs whole experiments" for name in _EXPERIMENTS},
}
# Slow to import, or installed by an extra: loaded where they are used.
OPTIONAL = """
    arviz blackjax bridgestan flax funsor h5netcdf matplotlib numpyro orbax pandas plotly polars pooch pyarrow pymc rich
    sklearn typer xarray
""".split()  # noqa: SIM905


def imports(path: Path) -> set[str]:
    """The folders of steinflow that a module imports from."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    parts = [name.split(".") for name in names if name.split(".")[0] == "steinflow"]
    return {part[1] if len(part) > 1 and part[1] in ORDER else "__init__" for part in parts}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_layers(path):
    layer = path.relative_to(PACKAGE).with_suffix("").parts[0]
    assert imports(path) <= set(ORDER[: ORDER.index(layer) + 1]), f"{layer} imports from below itself"


def test_every_module_has_its_place_in_the_architecture():
    words = set(re.findall(r"`([\w/]+)`", PACKAGE.with_name("docs").joinpath("architecture.md").read_text()))
    modules = {path.stem for path in PACKAGE.rglob("*.py") if not path.stem.startswith("__")}
    assert sorted(modules - words) == []


def test_every_module_has_a_test_file_of_its_name():
    modules = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]
    tests = Path(__file__).parent
    without = {str(module) for module in modules if not (tests / module.with_name(f"test_{module.name}")).exists()}
    assert without == set(ELSEWHERE)


def test_the_library_loads_nothing_optional():
    loaded = "import sys, steinflow; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()
    assert not {name.split(".")[0] for name in found} & set(OPTIONAL)
    assert not set(found) & {"scipy.stats", "scipy.optimize", "scipy.special"}  # most of a second


def test_the_command_line_loads_what_every_command_needs_and_no_more():
    loaded = "import sys, steinflow.cli.app; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()
    assert "sklearn" in found
    assert not set(found) & {
        "arviz",
        "formulae",
        "matplotlib",
        "numpyro",
        "optax",
        "plotly",
        "sklearn.calibration",
        "xarray",
    }


def test_methods_ask_flat_targets_and_not_the_classes_behind_them():
    asking = r"\btarget\.source\b|isinstance\([^)]*\bPosterior\b"
    assert [path.name for path in (PACKAGE / "methods").rglob("*.py") if re.search(asking, path.read_text())] == []


def test_nobody_asks_which_kernel_it_is():
    """A kernel brings its Stein direction and its Stein matrix with it."""
    asking = re.compile(rf"isinstance\([^)]*\b(?:{'|'.join(kernels.__all__)})\b")
    others = (path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE / "stein" / "kernels")
    assert [path.name for path in others if asking.search(path.read_text())] == []
