import dataclasses
import json
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from known_results import result_at

import steinflow as sf
from steinflow.results import files
from steinflow.results.files import appearing, json_text, write_whole
from steinflow.results.outcome import Ending, Outcome

RNG = np.random.default_rng(0)
ARRAY = RNG.normal(size=(4, 2)).astype(np.float32)
STRUCTURES = {
    "array": ARRAY,
    "scalars": ARRAY[:, 0],
    "matrices": RNG.normal(size=(4, 2, 3)).astype(np.float32),
    "dict": {"w": ARRAY, "b": ARRAY[:, 0]},
    "nested": {"layers": [{"w": ARRAY}, (ARRAY[:, 0], {"b": ARRAY})], "none": None},
    "list": [ARRAY, ARRAY[:, 0]],
    "tuple": (ARRAY, (ARRAY[:, 0],)),
    "integer keys": {0: ARRAY, 1: {2: ARRAY}},
    "clashing names": {"a.b": ARRAY, "a": {"b": 2 * ARRAY}},
    "slashes": {"scope/w": ARRAY, "scope.w": 2 * ARRAY},
    "names of axes": {"chain": ARRAY[:, 0], "draw": ARRAY},
    "empty dict": {"a": ARRAY, "empty": {}},
}


def result_of(particles, **fields):
    """Points and scores are unrelated to the particles here: they are only written and read."""
    n = len(jax.tree.leaves(particles)[0])
    x = jnp.asarray(RNG.normal(size=(n, 2)), jnp.float32)
    return dataclasses.replace(
        result_at(x, lambda x: -0.5 * jnp.sum(x**2)), particles=jax.tree.map(jnp.asarray, particles), **fields
    )


@pytest.mark.parametrize("name", STRUCTURES)
def test_save_and_load(name, tmp_path):
    particles = STRUCTURES[name]
    history = {"step": np.arange(2), "cloud": jax.tree.map(lambda leaf: np.stack([leaf, leaf]), particles)}
    ending = Ending(Outcome.STOPPED, "stopped by a rule.")
    saved = result_of(
        particles, weights=jnp.array([0.1, 0.2, 0.3, 0.4]), history=history, num_chains=2, ending=ending, state=1
    )
    path = saved.save(tmp_path / "run.nc")
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"]
    loaded = sf.load(path)
    assert (loaded.target, loaded.state) == (None, None)
    assert (loaded.ending, loaded.outcome) == (ending, Outcome.STOPPED)
    for field in {field.name for field in dataclasses.fields(saved)} - {"target", "state", "ending"}:
        before, after = getattr(saved, field), getattr(loaded, field)
        assert jax.tree.structure(before) == jax.tree.structure(after), field
        for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
            np.testing.assert_array_equal(a, b, err_msg=field)
            assert np.asarray(a).dtype == np.asarray(b).dtype


def test_the_summary_of_what_is_loaded(tmp_path):
    saved = result_of({"w": ARRAY})
    assert str(sf.load(saved.save(tmp_path / "run.nc")).summary()) == str(saved.summary())


def test_save_replaces_and_leaves_nothing_behind(tmp_path):
    path = result_of(ARRAY).save(tmp_path / "run.nc")
    result_of({"a": ARRAY}).save(path)
    assert set(sf.load(path).particles) == {"a"}
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"]


def test_load_another_file(tmp_path):
    import xarray

    with pytest.raises(FileNotFoundError):
        sf.load(tmp_path / "nothing.nc")
    path = tmp_path / "other.nc"
    xarray.Dataset({"a": ("x", np.ones(3))}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match="not a result of steinflow"):
        sf.load(path)


def test_a_full_disk_loses_nothing(tmp_path):
    """In a process of its own, whose files may not grow beyond 20 kB: HDF5 used to crash it when it closed its file."""
    code = """
        import resource, sys
        import jax.numpy as jnp
        import steinflow as sf
        from known_results import result_at

        path = sys.argv[1]
        small = result_at(jnp.ones((3, 2)), lambda x: -jnp.sum(x**2))
        large = result_at(jnp.ones((3000, 2)), lambda x: -jnp.sum(x**2))
        small.save(path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            large.save(path)
        except OSError as error:
            print(error, *error.__notes__)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        print(len(sf.load(path)), len(large), float(large.mean()[0]))
    """
    helpers = str(tmp_path.joinpath(files.__file__).parents[2] / "tests" / "helpers")
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {helpers!r})\n{textwrap.dedent(code)}", "run.nc"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    message, rest = run.stdout.splitlines()
    assert "File too large: 'run.nc' Nothing is lost" in message
    assert rest == "3 3000 1.0", "the old file is whole, and the result is still there"
    assert "HDF5" not in run.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"]


def test_saving_where_it_cannot_be(tmp_path):
    with pytest.raises(IsADirectoryError, match="This is a folder"):
        result_of(ARRAY).save(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Nothing is lost"):
        result_of(ARRAY).save(tmp_path / "file" / "run.nc")


def test_json_has_no_nan():
    values = {"a": float("nan"), "b": [1.0, float("inf"), (2, None, "NaN")], "c": np.array([[1, np.nan]])}
    values["d"] = Ending(Outcome.STOPPED.value, np.float32(np.inf))
    expected = {"a": None, "b": [1.0, None, [2, None, "NaN"]], "c": [[1.0, None]]}
    found = json.loads(json_text(values), parse_constant=pytest.fail)
    assert found == {**expected, "d": {"outcome": "stopped", "message": None}}
    with pytest.raises(TypeError):
        json_text({"a": object()})


@pytest.mark.parametrize(("content", "read"), [("Müller\r\n", "Müller\r\n".encode()), (b"\x00\xff", b"\x00\xff")])
def test_files_appear_whole(tmp_path, content, read):
    path = write_whole(tmp_path / "deep" / "file", content)
    assert path.read_bytes() == read
    assert [p.name for p in path.parent.iterdir()] == ["file"]
    umask_says = tmp_path / "plain"
    umask_says.touch()
    assert path.stat().st_mode == umask_says.stat().st_mode


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = write_whole(tmp_path / "file", "old")

    def no_space(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_folders_appear_whole(tmp_path):
    folder = tmp_path / "deep" / "run"
    for content in ("first", "second"):
        with appearing(folder) as unfinished:
            (unfinished / content).write_text(content)
            assert not (folder / content).exists()
        assert [p.name for p in folder.iterdir()] == [content]

    def fail():
        with appearing(folder) as unfinished:
            (unfinished / "third").write_text("third")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert [p.name for p in folder.iterdir()] == ["second"]
    assert [p.name for p in folder.parent.iterdir()] == ["run"]


def test_a_folder_that_cannot_be_put_in_place_leaves_the_old_one(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    with appearing(folder) as unfinished:
        (unfinished / "old").touch()

    def refuse(self, target):
        raise PermissionError(13, "Permission denied")

    def fail():
        with appearing(folder):
            monkeypatch.setattr(type(folder), "replace", refuse)

    with pytest.raises(PermissionError):
        fail()
    assert [p.name for p in folder.iterdir()] == ["old"]
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
