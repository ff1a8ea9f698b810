"""Figures in pages: what was measured goes between two markers, so that nobody types it."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
END = "<!-- benchmark: end -->\n"


def put(page: str, name: str, content: str) -> None:
    """Replace what stands between the marker of that name and the next end."""
    path, start = ROOT / page, f"<!-- {name}: start -->\n"
    before, found, after = path.read_text().partition(start)
    if not found:
        raise ValueError(f"{page} has no marker {start.strip()}")
    path.write_text(before + found + content + END + after.partition(END)[2])
