"""What is measured is kept in a small JSON file, so that it is not measured again."""

import json

import jax


def kept(path, compute, *arguments):
    """Return the figures in this file, which are measured if it is not there."""
    if not path.exists():
        found = compute(*arguments)
        jax.clear_caches()  # a process that keeps the compiled code of a whole suite runs out of memory maps
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found))
    return json.loads(path.read_text())
