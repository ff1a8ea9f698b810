"""Many results as a sequence, a table, one xarray and a file."""

import numpy as np
import pytest
from known_results import normal_around

import steinflow as sf


@pytest.fixture
def many():
    return sf.Many(tuple(map(normal_around, range(3))), ("one", "two", "three"))


def test_it_is_a_sequence_with_names(many):
    assert len(many) == 3
    assert many["two"] is many[1] is many[-2]
    assert many[1:].names == ("two", "three")
    assert [len(result) for result in many] == [20, 20, 20]
    with pytest.raises(KeyError, match="no posterior named 'four'"):
        many["four"]
    assert "3 posteriors" in repr(many)


def test_moments_have_an_axis_of_posteriors(many):
    assert many.mean()["b"].shape == (3, 2)
    np.testing.assert_allclose(many.sd()["a"][2], np.std(many[2].particles["a"]), rtol=1e-5)
    assert many.particles["b"].shape == (3, 20, 2)


def test_the_summary_is_a_table_by_posterior(many):
    summary = many.summary()
    assert summary.columns["mean"].shape == (3, 3)
    table = summary.to_dataframe()
    assert list(table["posterior"][:4]) == ["one", "one", "one", "two"]
    assert list(table["parameter"][:3]) == ["a", "b[0]", "b[1]"]
    np.testing.assert_allclose(table["mean"][3], np.mean(many[1].particles["a"]), rtol=1e-5)
    lines = str(summary).splitlines()
    assert lines[0].split()[:2] == ["a", "b[0]"]
    assert lines[1].startswith("one")


def test_arviz_sees_one_more_dimension(many):
    tree = many.to_arviz()
    values = tree["posterior"]["b"]
    assert values.dims[:3] == ("chain", "draw", "posterior")
    np.testing.assert_array_equal(values.sel(posterior="three", chain=1, draw=0), many[2].particles["b"][10])
    assert tree["sample_stats"]["lp"].shape == (2, 10, 3)


@pytest.mark.parametrize("weights", [None, np.arange(1, 21, dtype=np.float32) / 210])
def test_what_is_saved_comes_back(tmp_path, weights):
    many = sf.Many(tuple(normal_around(k, weights) for k in range(2)), ("one", "two"))
    loaded = sf.Many.load(many.save(tmp_path / "many.nc"))
    assert loaded.names == many.names
    for before, after in zip(many, loaded, strict=True):
        np.testing.assert_array_equal(before.particles["b"], after.particles["b"])
        np.testing.assert_array_equal(before.scores, after.scores)
        np.testing.assert_array_equal(before.probabilities, after.probabilities)
        assert (after.ending, after.info, after.num_chains) == (before.ending, before.info, before.num_chains)
        assert after.verdict.level == before.verdict.level


def test_files_of_one_and_of_many_are_told_apart(tmp_path, many):
    with pytest.raises(ValueError, match=r"sf\.Many\.load"):
        sf.load(many.save(tmp_path / "many.nc"))
    with pytest.raises(ValueError, match=r"sf\.load"):
        sf.Many.load(many[0].save(tmp_path / "one.nc"))


def test_different_numbers_of_particles_do_not_fit_in_one_array():
    many = sf.Many((normal_around(0), normal_around(1, num=10)), ("one", "two"))
    with pytest.raises(ValueError, match="different numbers of particles"):
        many.to_arviz()
