"""What all experiments share: parts that are computed once and kept, and the pages made of them.

An experiment is a list of parts, each a small piece of work (one split, one method) with the settings that it depends
on. A finished part is one JSON file, written at once or not at all and named after a fingerprint of its settings: an
interrupted run goes on where it stopped, and a changed setting is computed again.
"""

import dataclasses
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from steinflow.paper.workers import side_by_side
from steinflow.results.files import json_text, plain, write_whole

Values = dict[str, dict[str, Any]]  # what the finished parts found, by the name of the part

IMAGES = Path("images") / "results"


@dataclasses.dataclass(frozen=True)
class Part:
    """A piece of work.

    Attributes:
        name: unique in its experiment.
        settings: all that the values depend on, as JSON; a change means to compute again.
        compute: takes the values of the parts that it needs to its own, as JSON.
        needs: the names of parts whose values it takes.
    """

    name: str
    settings: Mapping[str, Any]
    compute: Callable[[Values], dict[str, Any]]
    needs: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        """Where it is kept, by name and fingerprint of the settings."""
        text = json.dumps(plain(self.settings), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        return f"{re.sub(r'[^a-zA-Z0-9]+', '-', self.name)}-{digest}.json"


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper. Its functions are those of a module, so that worker processes find them.

    Attributes:
        title: the heading of its page.
        summary: one line.
        full: its frozen configuration.
        quick: that of a smaller version.
        parts: lists the work of a configuration, in the order to do it.
        draw: writes figures into a folder, from whatever parts are finished.
        page: returns the page below its heading, from whatever parts are finished.
    """

    title: str
    summary: str
    full: Any
    quick: Any
    parts: Callable[[Any], Sequence[Part]]
    draw: Callable[[Any, Values, Path], None]
    page: Callable[[Any, Values], str]


def run(
    name: str, experiment: Experiment, output: Path, *, quick: bool, compute: bool = True, cores: Sequence[int] = ()
) -> Values:
    """Compute the parts that are missing, then write numbers, figures and page.

    Args:
        name: of the experiment.
        experiment: what to do.
        output: the folder; finished parts are in `parts/<name>` below it.
        quick: whether to do the smaller version.
        compute: without, the pages are written from the parts that are there.
        cores: for worker processes, one each; fewer than two of them, or of missing parts, and this process does it.
    """
    config = experiment.quick if quick else experiment.full
    folder = output / "parts" / name
    folder.mkdir(parents=True, exist_ok=True)
    parts = experiment.parts(config)
    paths = {part.name: folder / part.file_name for part in parts}
    documents = {part: _read(path) for part, path in paths.items() if path.exists()}
    missing = [part for part in parts if compute and part.name not in documents]
    try:
        with tqdm(total=len(parts), initial=len(documents), desc=name, unit="part", disable=not compute) as bar:
            for done, document in _computed(experiment, config, missing, documents, cores[: len(missing)]):
                write_whole(paths[done], json_text(document))
                documents[done] = _read(paths[done])
                bar.set_postfix_str(done, refresh=False)
                bar.update()
    finally:  # also where it was interrupted: what is finished is worth a page
        documents = {part: documents[part] for part in paths if part in documents}  # in the order of the parts
        values = {done: document["values"] for done, document in documents.items()}
        if values:
            report = {
                "experiment": name,
                "quick": quick,
                "config": dataclasses.asdict(config),
                "environment": environment(),
                "parts_finished": f"{len(values)} of {len(parts)}",
                "seconds": sum(document["seconds"] for document in documents.values()),
                "parts": documents,
            }
            write_whole(output / f"{name}.json", json_text(report))
            (output / IMAGES).mkdir(parents=True, exist_ok=True)
            experiment.draw(config, values, output / IMAGES)
            write_whole(output / f"{name}.md", _page(experiment, config, report, values))
    return values


def _read(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_text("utf-8"))
    return {**document, "values": _numbers(document["values"])}


def _numbers(values: Any) -> Any:
    """Return values as they were found: null was a number that is not finite."""
    if isinstance(values, dict):
        return {name: _numbers(value) for name, value in values.items()}
    if isinstance(values, list):
        return [_numbers(value) for value in values]
    return np.nan if values is None else values


def _computed(experiment, config, missing, documents, cores) -> Iterator[tuple[str, dict[str, Any]]]:
    """Compute parts, here or in worker processes, and yield names and documents as they come."""

    def taken(part):
        return {need: documents[need]["values"] for need in part.needs}

    if len(cores) < 2:
        for part in missing:
            yield part.name, _document(part, taken(part))
        return

    def call(part):
        return part.needs, lambda: (experiment.parts, config, part.name, taken(part))

    yield from side_by_side({part.name: call(part) for part in missing}, _part_of, documents, cores)


def _part_of(parts: Callable[[Any], Sequence[Part]], config: Any, name: str, taken: Values) -> dict[str, Any]:
    return _document(next(part for part in parts(config) if part.name == name), taken)


def _document(part: Part, taken: Values) -> dict[str, Any]:
    started = time.perf_counter()
    values = part.compute(taken)
    return {
        "part": part.name,
        "settings": part.settings,
        "seconds": time.perf_counter() - started,
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "environment": environment(),
        "values": values,
    }


def _page(experiment, config, report, values) -> str:
    minutes = report["seconds"] / 60
    note = "the quick version" if report["quick"] else "the full version"
    lines = [
        f"## {experiment.title}",
        "",
        reflowed(experiment.page(config, values)),
        "",
        f"*{note[0].upper()}{note[1:]}, {report['parts_finished']} parts finished, {minutes:.1f} minutes of computing. "
        f"All numbers: `{report['experiment']}.json`.*",
        "",
    ]
    return "\n".join(lines)


def reflowed(text: str) -> str:
    """Return Markdown with the lines of its paragraphs filled; tables, lists and images stay as they are."""
    blocks = [block.strip("\n") for block in re.split(r"\n\s*\n", text.strip())]
    plain = re.compile(r"[^|!\-#]")
    return "\n\n".join(textwrap.fill(b, 118, break_on_hyphens=False) if plain.match(b) else b for b in blocks)


def environment() -> dict[str, Any]:
    """Return what the numbers may depend on beside the settings."""
    names = ("steinflow", "jax", "jaxlib", "numpy", "optax", "blackjax")
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "versions": {name: version for name in names if (version := _version(name))},
    }


def _version(name) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def mean_and_error(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Return the mean and its standard error (NaN for a single value)."""
    array = np.asarray(values, float)
    error = np.std(array, ddof=1) / np.sqrt(len(array)) if len(array) > 1 else np.nan
    return float(np.mean(array)), float(error)


def with_error(values: Sequence[float], digits: int) -> str:
    """Return the mean ± its standard error as text."""
    mean, error = mean_and_error(values)
    return f"{mean:.{digits}f}" + (f" ± {error:.{digits}f}" if np.isfinite(error) else "")


def groups(values: Values, *keys: str) -> Iterator[tuple[tuple, list[dict[str, Any]]]]:
    """Group what the parts found by some of the entries in it, in the order of first appearance."""
    found: dict[tuple, list[dict[str, Any]]] = {}
    for entry in values.values():
        if all(key in entry for key in keys):
            found.setdefault(tuple(entry[key] for key in keys), []).append(entry)
    yield from found.items()
