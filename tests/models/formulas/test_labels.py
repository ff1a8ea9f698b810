"""Names of axes, and of the positions on them."""

import steinflow as sf


def test_labels_name_levels_as_bambi_does(table):
    target = sf.formula("y ~ x * z + (1 + x | g) + (1 | g:h)", table)
    labels = target.observations.labels()
    assert labels.dims["x:z"] == ("x:z_dim",)
    assert labels.coords["x:z_dim"] == ["b", "c"]
    assert labels.coords["g__factor_dim"] == list("012345")
    assert labels.coords["1+x|g_cor_dim"] == ["1, x"]


def test_thresholds_lie_between_classes(table):
    labels = sf.formula("grade ~ x", table, family="cumulative").observations.labels()
    assert labels.dims["threshold"] == ("threshold_dim",)
    assert labels.coords["threshold_dim"] == ["1 | 2", "2 | 3", "3 | 4"]


def test_classes_are_named_but_for_the_first(table):
    labels = sf.formula("grade ~ z + (1 | g)", table, family="categorical").observations.labels()
    assert labels.coords["response_dim"] == ["2", "3", "4"]
    assert labels.dims["Intercept"] == ("response_dim",)
    assert labels.dims["z"] == ("z_dim", "response_dim")
    assert labels.dims["1|g"] == ("g__factor_dim", "response_dim")
