"""README and docs: every Python block runs, every relative link leads somewhere."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

BLOCK = re.compile(
    r"(?P<skip><!-- no-run -->\s*)?^(?P<indent>[ ]*)```(?P<language>\w*)[^\n]*\n"
    r"(?P<code>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"""(?:\]\(|(?:src|href)=")([^)"\s]+)""")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())


def script(text: str) -> str:
    """The Python blocks of a page as one script, each on its own lines of the page."""
    lines = [""] * (text.count("\n") + 1)
    for block in BLOCK.finditer(text):
        if block["language"] in ("python", "py") and not block["skip"]:
            code = textwrap.dedent(block["code"]).splitlines()
            start = text.count("\n", 0, block.start("code"))
            lines[start : start + len(code)] = code
    return "\n".join(lines)


@each_page
def test_blocks_run(page, tmp_path):
    code = script(page.read_text())
    if not code.strip():
        return
    # Under the name of the page, so that a traceback shows its lines.
    (tmp_path / page.name).write_text(code)
    run = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::FutureWarning:arviz", page.name],
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr


@each_page
def test_links_lead_somewhere(page):
    targets = LINK.findall(BLOCK.sub("", page.read_text()))
    paths = [t.split("#")[0] for t in targets if not re.match(r"[a-z]+:", t)]
    found = {p: (page.parent / p).resolve() for p in paths}
    broken = [p for p, f in found.items() if not (f.exists() and f.is_relative_to(ROOT))]
    assert not broken
