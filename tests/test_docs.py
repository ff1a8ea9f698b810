"""README and docs: every Python block runs, every link leads somewhere, the site builds without a warning."""

import ast
import os
import re
import runpy
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from inspect import ismodule
from pathlib import Path

import jax
import pytest
from markdown.extensions.toc import slugify
from matplotlib import pyplot

import steinflow

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *(page for page in sorted(DOCS.rglob("*.md")) if "vendor" not in page.parts)]

BLOCK = re.compile(
    r"(?P<skip><!-- (?:no-run|needs (?P<package>\w+)) -->\s*)?^(?P<indent>[ ]*)```(?P<language>\w*)[^\n]*\n"
    r"(?P<code>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"""(?:\]\(|(?:src|href|srcset)=")([^)"\s]+)""")
HEADING = re.compile(r"^#+ +(.*?)(?: *\{ *#(\S+) *\})?$", re.MULTILINE)


# They fit one model or network after the other, by one method after the other, or with packages that start slowly.
LONG = (
    *(
        "big-data.md",
        "constraints.md",
        "diagnostics.md",
        "formulas.md",
        "kernels.md",
        "many.md",
        "mathematics.md",
        "methods.md",
    ),
    *("migration.md", "networks.md", "numpyro-pymc.md", "tables.md", "tuning-free.md"),
)


def is_long(page: Path) -> bool:
    """Examples compare long runs."""
    return page.parent.name == "examples" or page.name in LONG


def script(text: str) -> str:
    """The Python blocks of a page as one script, each on its own lines of the page."""
    lines = [""] * (text.count("\n") + 1)
    for block in BLOCK.finditer(text):
        runs = find_spec(block["package"]) if block["package"] else not block["skip"]
        if block["language"] in ("python", "py") and runs:
            code = textwrap.dedent(block["code"]).splitlines()
            start = text.count("\n", 0, block.start("code"))
            lines[start : start + len(code)] = code
    return "\n".join(lines)


def path_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


SCRIPTS = {page: code for page in PAGES if (code := script(page.read_text())).strip()}
each_page = pytest.mark.parametrize("page", PAGES, ids=path_of)
each_page_with_code = pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.slow if is_long(page) else ()) for page in SCRIPTS],
    ids=path_of,
)


def few_steps(*args, num_steps=1000, fit=steinflow.fit, **options):
    return fit(*args, num_steps=min(num_steps, 50), **options)


@pytest.fixture
def as_a_user(tmp_path, monkeypatch):
    """A folder to write to, the promotion that JAX comes with, and figures that nobody sees or has to close."""
    monkeypatch.chdir(tmp_path)
    pyplot.switch_backend("Agg")
    with jax.numpy_dtype_promotion("standard"):
        yield
    pyplot.close("all")
    assert not jax.config.jax_enable_x64, "all pages run in this process: give this one a process of its own"


@each_page_with_code
@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")
def test_blocks_run(page, as_a_user, monkeypatch):
    """In this process, where most of what a page needs is imported and compiled already."""
    if page.parent.name == "examples":  # they compare long runs; here they only have to run
        monkeypatch.setattr(steinflow, "fit", few_steps)
    # Under the name of the page, so that a traceback shows its lines.
    Path(page.name).write_text(SCRIPTS[page])
    runpy.run_path(page.name, run_name="__main__")


def seeds(code: ast.AST) -> set[str]:
    """Of the keys that are made in a piece of code."""
    calls = [node for node in ast.walk(code) if isinstance(node, ast.Call)]
    return {ast.unparse(call.args[0]) for call in calls if ast.unparse(call.func) == "jax.random.key"}


@pytest.mark.parametrize("page", SCRIPTS, ids=path_of)
def test_a_start_and_its_run_have_keys_of_their_own(page):
    """A run splits its key, as a start may have done: both would hold the same keys."""
    nodes = list(ast.walk(ast.parse(SCRIPTS[page])))
    starts = {ast.unparse(node.targets[0]): seeds(node.value) for node in nodes if isinstance(node, ast.Assign)}
    for call in (node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "sf.fit"):
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        assert given.get("key", "0") not in starts.get(given.get("particles"), ()), ast.unparse(call)


@pytest.mark.parametrize(
    ("part", "lines"), [("a-kernel", 10), ("a-method", 50), ("a-step-rule", 30), ("an-exploration", 30)]
)
def test_a_new_part_is_short(part, lines):
    """The first block of each page is all of it, imports and empty lines included."""
    block = BLOCK.search((DOCS / "contributing" / f"add-{part}.md").read_text())
    assert block["language"] == "python"
    assert "class " in block["code"]
    assert block["code"].count("\n") <= lines


def anchors(page: Path) -> set[str]:
    """What may follow # in a link to the page."""
    text = BLOCK.sub("", page.read_text())
    slugs = {given or slugify(re.sub(r"[`*]", "", title), "-") for title, given in HEADING.findall(text)}
    return slugs | set(re.findall(r"^::: (\S+)", text, re.MULTILINE))


@each_page
def test_links_lead_somewhere(page):
    links = [t for t in LINK.findall(BLOCK.sub("", page.read_text())) if not re.match(r"[a-z]+:", t)]
    for link in links:
        path, _, anchor = link.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), link
        assert found.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(found), link


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("nav:")[2].partition("\nexclude_docs:")[0]
    listed = [DOCS / name for name in re.findall(r": (\S+\.md)$", navigation, re.MULTILINE)]
    assert sorted(listed) == sorted(PAGES[1:])


def test_every_public_name_is_in_the_reference():
    reference = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    listed = {name.split(".")[-1] for name in re.findall(r"^::: (\S+)", reference, re.MULTILINE)}
    public = {name for name in steinflow.__all__ if name != "constraints" and not ismodule(getattr(steinflow, name))}
    assert public <= listed, public - listed


def test_site_builds_without_a_warning_and_needs_no_network(tmp_path):
    """`make docs`, strictly; pages load nothing from elsewhere, so that they work offline."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        loads = re.findall(r'<(?:script|img|link|iframe)[^>]*?(?:src|href)="?(https?:[^"\s>]+)', page.read_text())
        assert not loads, page
