"""Experiments: parts are computed once, whatever interrupts them, and pages are made of what is finished."""

import dataclasses
import functools
import json
import os
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from steinflow import paper
from steinflow.devices.keys import as_key
from steinflow.paper import covertype, expectations, logistic, networks, networks_page, toy, uncertainty
from steinflow.paper.authors import large_start
from steinflow.paper.datasets import Dataset
from steinflow.paper.fits import DEFAULT, PAPER
from steinflow.paper.parts import Experiment, Part, groups, reflowed, run, table, with_error

DATA = Path(os.environ.get("STEINFLOW_DATA", Path(__file__).parents[3] / "shared" / "data"))
MODULES = {
    "toy": toy,
    "expectations": expectations,
    "covertype": covertype,
    "logistic": logistic,
    "uncertainty": uncertainty,
    "networks": networks,
}


@pytest.fixture
def data(monkeypatch):
    if not (DATA / "regression").is_dir():
        pytest.skip("the paper's data are not here: set STEINFLOW_DATA")
    monkeypatch.setenv("STEINFLOW_DATA", str(DATA))


@dataclasses.dataclass(frozen=True)
class Squares:
    numbers: tuple[int, ...] = (1, 2, 3)
    offset: int = 0


def squares(calls, *, fails_at=None):
    """An experiment that counts how often its parts are computed."""

    def parts(config):
        def part(n):
            def compute(taken):
                if n == fails_at:
                    raise KeyboardInterrupt
                calls.append(n)
                return {"n": n, "square": np.float32(n**2 + config.offset), "taken": list(taken)}

            needs = () if n == 1 else ("square of 1",)
            return Part(f"square of {n}", {"n": n, "offset": config.offset}, compute, needs)

        return [part(n) for n in config.numbers]

    return Experiment(
        title="Squares",
        summary="of numbers",
        full=Squares(),
        quick=Squares((1,)),
        parts=parts,
        draw=lambda config, values, folder: (folder / "squares.png").write_bytes(b""),
        page=lambda config, values: f"{len(values)} squares",
    )


def test_parts_are_computed_once(tmp_path):
    calls = []
    for _ in range(2):
        values = run("squares", squares(calls), tmp_path, quick=False)
        assert [entry["square"] for entry in values.values()] == [1, 4, 9]
        assert [entry["taken"] for entry in values.values()] == [[], ["square of 1"], ["square of 1"]]
    assert calls == [1, 2, 3]


def test_changed_settings_are_computed_again(tmp_path):
    calls = []
    run("squares", squares(calls), tmp_path, quick=False)
    changed = dataclasses.replace(squares(calls), full=Squares((1, 2, 3, 4), offset=0))
    run("squares", changed, tmp_path, quick=False)
    assert calls == [1, 2, 3, 4]  # only what is new
    shifted = dataclasses.replace(squares(calls), full=Squares((1, 2), offset=1))
    assert run("squares", shifted, tmp_path, quick=False)["square of 2"]["square"] == 5


def test_interrupted_run_goes_on(tmp_path):
    calls = []
    with pytest.raises(KeyboardInterrupt):
        run("squares", squares(calls, fails_at=3), tmp_path, quick=False)
    assert "2 of 3 parts finished" in (tmp_path / "squares.md").read_text()
    run("squares", squares(calls), tmp_path, quick=False)
    assert calls == [1, 2, 3]
    assert "3 of 3 parts finished" in (tmp_path / "squares.md").read_text()
    assert not list(tmp_path.rglob(".*"))


def test_numbers_that_are_not_finite(tmp_path):
    """JSON has none of them: null takes their place in the file, and NaN in what is read from it."""
    part = Part("one", {}, lambda taken: {"curve": np.array([1.0, np.nan]), "best": -np.inf})
    diverged = dataclasses.replace(squares([]), parts=lambda config: [part])
    for _ in range(2):
        values = run("squares", diverged, tmp_path, quick=False)
        np.testing.assert_equal(values["one"], {"curve": [1.0, np.nan], "best": np.nan})
    for path in tmp_path.rglob("*.json"):
        json.loads(path.read_text(), parse_constant=pytest.fail)


def halves(config):
    """Parts for worker processes, which find them by the name of this function; the sum waits for both."""

    def half(taken):
        return {"value": 0.5, "process": os.getpid()}

    def total(taken):
        if config.offset:
            raise KeyboardInterrupt
        return {"value": sum(entry["value"] for entry in taken.values()), "process": os.getpid()}

    return [
        Part("sum", {"offset": config.offset}, total, ("left", "right")),
        Part("left", {}, half),
        Part("right", {}, half),
    ]


@pytest.mark.slow
def test_parts_side_by_side(tmp_path):
    experiment = dataclasses.replace(squares([]), parts=halves, full=Squares(offset=1))
    with pytest.raises(KeyboardInterrupt):
        run("halves", experiment, tmp_path, quick=False, cores=[0, 1])
    assert "2 of 3 parts finished" in (tmp_path / "halves.md").read_text()
    experiment = dataclasses.replace(experiment, full=Squares())
    values = run("halves", experiment, tmp_path, quick=False, cores=[0, 1])
    assert list(values) == ["sum", "left", "right"]
    assert values["sum"]["value"] == 1
    assert os.getpid() not in (values["left"]["process"], values["right"]["process"])


def test_numbers_say_how_they_came_about(tmp_path):
    run("squares", squares([]), tmp_path, quick=False)
    report = json.loads((tmp_path / "squares.json").read_text())
    part = report["parts"]["square of 2"]
    assert report["config"] == {"numbers": [1, 2, 3], "offset": 0}
    assert part["settings"] == {"n": 2, "offset": 0}
    assert part["values"]["square"] == 4
    assert part["seconds"] >= 0
    assert "jax" in part["environment"]["versions"]


def test_report_computes_nothing(tmp_path):
    calls = []
    with pytest.raises(KeyboardInterrupt):
        run("squares", squares(calls, fails_at=2), tmp_path, quick=False)
    run("squares", squares(calls), tmp_path, quick=False, compute=False)
    assert calls == [1]


def test_quick_and_full_share_parts(tmp_path):
    calls = []
    run("squares", squares(calls), tmp_path, quick=True)
    run("squares", squares(calls), tmp_path, quick=False)
    assert calls == [1, 2, 3]


def test_reproduce_puts_all_on_one_page(tmp_path, monkeypatch):
    calls = []
    before = jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs
    monkeypatch.setattr(paper, "_experiment", lambda name: squares(calls))
    monkeypatch.setattr(paper, "available_cores", lambda: [0])  # the squares cannot be sent to workers
    try:
        page = paper.reproduce(["toy", "networks"], output=tmp_path, quick=False)
    finally:
        jax.config.update("jax_compilation_cache_dir", before[0])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", before[1])
    assert calls == [1, 2, 3, 1, 2, 3]
    assert page.read_text().startswith("# The paper, reproduced\n")
    assert page.read_text().count("## Squares") == 2


def test_names():
    assert list(paper.NAMES) == list(MODULES)
    with pytest.raises(ValueError, match="no experiment 'tyo'; there are toy"):
        paper.reproduce(["tyo"], output=Path("nowhere"), quick=True)


@pytest.mark.parametrize("name", paper.NAMES)
@pytest.mark.parametrize("version", ["full", "quick"])
def test_parts_have_names_and_fingerprints_of_their_own(name, version):
    experiment = MODULES[name].EXPERIMENT
    parts = experiment.parts(getattr(experiment, version))
    assert len({part.name for part in parts}) == len({part.file_name for part in parts}) == len(parts)


@pytest.mark.parametrize("module", [toy, covertype], ids=lambda module: module.__name__.rpartition(".")[2])
def test_start_and_run_have_keys_of_their_own(monkeypatch, module):
    """Prior draws made of the keys into which a run splits its own are correlated with its moves."""
    seen, rows = {}, Dataset("covertype", np.ones((100, 2), np.float32), np.arange(100) % 2, num_train=80)

    def fit(target, method, *, particles, key, **others):
        seen.update(target=target, particles=particles, key=as_key(key))
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "fit", fit)
    monkeypatch.setattr(covertype, "_rows", lambda max_rows: rows)
    part = next(part for part in module.EXPERIMENT.parts(module.EXPERIMENT.quick) if PAPER in part.name)
    with pytest.raises(KeyboardInterrupt):
        part.compute({})
    draw = functools.partial(large_start, seen["target"]) if module is covertype else seen["target"].sample_prior
    from_the_key = jax.vmap(draw)(jax.random.split(seen["key"], num_particles(seen["particles"])))
    for drawn, start in zip(jax.tree.leaves(from_the_key), jax.tree.leaves(seen["particles"]), strict=True):
        assert not np.any(np.isclose(drawn, start))


def num_particles(particles):
    return len(jax.tree.leaves(particles)[0])


def test_small_helpers():
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
    assert with_error([1.0, 3.0], 1) == "2.0 ± 1.0"
    assert with_error([1.0], 1) == "1.0"
    values = {"x": {"m": "a", "v": 1}, "y": {"m": "b", "v": 2}, "z": {"m": "a", "v": 3}, "other": {}}
    assert [(key, [e["v"] for e in entries]) for key, entries in groups(values, "m")] == [
        (("a",), [1, 3]),
        (("b",), [2]),
    ]


def test_paragraphs_are_filled():
    assert reflowed("a\nb\n\n| x |\n| y |\n\n- c\n- d") == "a b\n\n| x |\n| y |\n\n- c\n- d"


def reproduced(name, config, folder):
    """A tiny version of an experiment, with its page."""
    experiment = dataclasses.replace(MODULES[name].EXPERIMENT, full=config)
    values = run(name, experiment, folder, quick=False)
    page = (folder / f"{name}.md").read_text()
    for link in (line.split("(")[1].split(")")[0] for line in page.splitlines() if line.startswith("![")):
        assert (folder / link).stat().st_size < 300_000
    return values, page


@pytest.mark.slow
def test_toy(tmp_path):
    values, page = reproduced("toy", toy.Config(shown=(0, 100, 500), record_every=100, animate=True), tmp_path)
    for method in (PAPER, DEFAULT):  # both cross to the far mode, and the moments are right
        assert values[method]["right"] == pytest.approx(0.66, abs=0.08)
        assert values[method]["mean"] == pytest.approx(2 / 3, abs=0.3)
        assert values[method]["variance"] == pytest.approx(41 / 9, rel=0.15)
    assert values["PMD"]["right"] < 0.5
    assert (tmp_path / "images" / "results" / "toy.gif").read_bytes().startswith(b"GIF")
    assert "| exact | 0.667 | 4.556 |" in page


@pytest.mark.slow
def test_expectations(tmp_path):
    config = expectations.Config(num_particles=(20,), num_repeats=3, num_steps=500)
    values, page = reproduced("expectations", config, tmp_path)
    assert len(values) == 3
    errors = values[f"{PAPER}, n = 20"]["squared_errors"]
    assert np.mean(errors["mean"]) < 41 / 9 / 20 * 2
    assert np.mean(errors["square"]) < 18 / 20 * 2
    assert "| Monte Carlo | 20 |" in page


@pytest.mark.slow
def test_uncertainty(tmp_path, monkeypatch):
    # Without NUTS and NPV, which take long to compile: the page is made of what is finished.
    svgd_alone = dataclasses.replace(
        uncertainty.EXPERIMENT, parts=lambda config: uncertainty.EXPERIMENT.parts(config)[2:]
    )
    monkeypatch.setitem(MODULES, "uncertainty", SimpleNamespace(EXPERIMENT=svgd_alone))
    config = uncertainty.Config(num_steps=5000, default_steps=500, resolution=15)
    values, page = reproduced("uncertainty", config, tmp_path)
    assert list(values) == [PAPER, DEFAULT]
    gaps = np.abs(np.subtract(values[DEFAULT]["probability"], values[PAPER]["probability"]))
    assert gaps.mean() < 0.05
    assert "images/results/uncertainty.png" in page


@pytest.mark.slow
def test_logistic(data, tmp_path):
    config = logistic.Config(
        names=("banana",), num_splits=1, num_particles=30, num_steps=200, default_steps=150,
        num_draws=200, num_warmup=200, npv_steps=2,
    )  # fmt: skip
    values, page = reproduced("logistic", config, tmp_path)
    methods = values["banana, split 0"]["methods"]
    assert set(methods) == set(logistic.METHODS)
    for found in methods.values():
        assert found["accuracy"] == pytest.approx(methods["NUTS"]["accuracy"], abs=0.05)
    assert methods[DEFAULT]["error_of_means"] < 0.5
    assert methods[DEFAULT]["ratio_of_sds"] == pytest.approx(1, abs=0.3)
    assert page.count("| banana |") == 1


@pytest.mark.slow
def test_covertype(data, tmp_path):
    step_sizes = {PAPER: (5e-3, 5e-2), "PMD": (1e4,), "DSVI": (0.05,)}
    methods = tuple((name, covertype.Method(200, 100, sizes)) for name, sizes in step_sizes.items())
    config = covertype.Config(
        num_trials=1, num_particles=10, max_rows=3000, tuning_steps=100, particle_numbers=(10,), particle_steps=100,
        methods=methods,
    )  # fmt: skip
    values, page = reproduced("covertype", config, tmp_path)
    for name in step_sizes:
        curve = values[f"{name}, trial 0"]
        assert curve["steps"] == [100, 200]
        assert curve["epochs"] == pytest.approx([100 * 50 / 2400, 200 * 50 / 2400])
        assert all(0.3 < accuracy < 0.9 for accuracy in curve["accuracy"])
    assert values[f"step size of {PAPER}"]["step_size"] in step_sizes[PAPER]
    assert "1 of the paper's 50 trials" in " ".join(page.split())


@pytest.mark.slow
def test_networks(data, tmp_path):
    config = networks.Config(
        names=("yacht",), num_splits=2, num_steps=300, num_epochs=0, reaches=(0.15, 1.5), pbp_epochs=2,
        year_rows=3000, year_steps=3, year_pbp_rows=200,
    )  # fmt: skip
    values, page = reproduced("networks", config, tmp_path)
    for split in range(2):
        ours = values[f"yacht, split {split}, {PAPER}"]
        assert ours["reach"] == 1.5  # the longer one learns more in so few steps
        assert ours["rmse"] < 10  # the responses have a standard deviation of 15
        assert ours["dev_noise"].keys() == {"rmse", "log_likelihood", "reach"}
    assert values["stand-in for year"]["peak_bytes"] > 2**20
    assert "| yacht | 2 of 2 | 0.778 ± 0.042 |" in page
    assert "stand-in for time and memory only" in " ".join(page.split())


def test_published_numbers_are_complete():
    assert set(networks.SETS) | {"year"} == set(networks_page.PUBLISHED)
    for methods in networks_page.PUBLISHED.values():
        assert all(len(numbers) == 5 for numbers in methods.values())
