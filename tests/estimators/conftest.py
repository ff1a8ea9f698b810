"""Fitted estimators that many tests look at."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris

import steinflow as sf


@pytest.fixture(scope="session")
def diabetes():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    return X, y, sf.SteinRegressor(random_state=0).fit(X, y)


@pytest.fixture(scope="session")
def iris():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    with pytest.warns(UserWarning, match="'x3' separates the classes"):
        return X, names, sf.SteinClassifier(num_particles=20, num_steps=90, random_state=0).fit(X, names)
