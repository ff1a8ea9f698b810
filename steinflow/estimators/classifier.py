"""Bayesian classification with the interface of scikit-learn."""

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from steinflow.estimators.base import SteinEstimator, coefficient_frame, is_linear, log_mean_exp
from steinflow.models.families import Bernoulli, Categorical, Family
from steinflow.models.supervised import Scaling


class SteinClassifier(ClassifierMixin, SteinEstimator):
    """Bayesian logistic regression for two or more classes, or a neural network.

    Features are standardised inside; the precision of the weights is inferred, with a Gamma prior, or by
    cross-validation with hidden layers.

    Args:
        hidden: units of the hidden layers; () is logistic regression.
        activation: between layers, "relu" or "tanh".
        prior_scale: of a network's weights, whose prior is N(0, prior_scale² / fan_in); by default the best of 1, 3 and
            9 by cross-validation on log-likelihood.
        num_particles: how many particles stand for the posterior.
        num_steps: at most, by default 1,000, or ten passes over the rows if that is more; the run stops before when the
            particles have settled. Networks take 2,000, or 50 passes, 20,000 at most.
        batch_size: rows per step; by default all of them up to 10,000 and 1,000 above, with hidden layers 100 to 1,000.
        method: an inference method; by default `sf.SVGD()`, with hidden layers `sf.SVGD.for_networks(25.0)`.
        random_state: makes fits repeat themselves.

    Attributes:
        classes_: the labels.
        result_: the `sf.Result`, with particles on the standardised scale.
        coef_, intercept_: posterior means for the user's X, without hidden layers; one row per class, or one row for
            two classes.
        prior_scale_: of the weights, with hidden layers.
        n_iter_: how many steps were made.

    Example:
        ```python
        from sklearn.datasets import load_iris
        import steinflow as sf

        X, y = load_iris(return_X_y=True)
        probabilities = sf.SteinClassifier(random_state=0).fit(X, y).predict_proba(X)
        ```
    """

    def fit(self, X, y):
        """Find the posterior given the rows of X and their labels y."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, y = np.unique(y, return_inverse=True)
        self._check_classes()
        return self._fit(X, y, self._family, Scaling.none())

    @available_if(is_linear)
    def partial_fit(self, X, y, classes=None):
        """Go on with more rows: the posterior so far, as a Gaussian, is the prior. The first call sets the scaling."""
        first = not hasattr(self, "result_")
        X, y = validate_data(self, X, y, reset=first, dtype=np.float64)
        check_classification_targets(y)
        if first:
            if classes is None:
                raise ValueError("The first call of partial_fit needs classes, all labels that will ever come.")
            self.classes_ = np.unique(classes)
            self._check_classes()
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has labels that are not in classes {self.classes_}: {unknown}.")
        step = self._fit if first else self._update
        return step(X, np.searchsorted(self.classes_, y), self._family, Scaling.none())

    def predict_proba(self, X):
        """Return the posterior mean of the probability of every class."""
        probabilities = np.exp(self._log_probabilities(X))
        return np.einsum("p,pnk->nk", self._weights, probabilities)

    def predict_log_proba(self, X):
        """Return the logarithm of `predict_proba`."""
        logs = self._log_probabilities(X)
        return log_mean_exp(logs, self._weights)

    def predict(self, X):
        """Return the most probable label of every row."""
        best = np.argmax(self.predict_log_proba(X), axis=1)
        return self.classes_[best]

    def log_predictive(self, X, y):
        """Return the log probability of the label y under the posterior predictive distribution, for every row."""
        logs = self.predict_log_proba(X)
        return logs[np.arange(len(logs)), np.searchsorted(self.classes_, np.asarray(y))]

    @property
    def coef_(self):
        """The posterior mean of the coefficients."""
        return np.einsum("p,pdk->kd", self._weights, self._coefficients(1.0)[1])

    @property
    def intercept_(self):
        """The posterior mean of the intercepts."""
        return self._weights @ self._coefficients(1.0)[0]

    def coefficients(self):
        """Return mean, sd and quantiles of intercepts and coefficients as a pandas DataFrame, by feature and class."""
        intercepts, slopes = self._coefficients(1.0)
        values = np.concatenate([intercepts[:, None], slopes], axis=1)
        return coefficient_frame(self, values.reshape(len(values), -1), self.classes_ if values.shape[2] > 1 else None)

    @property
    def _family(self) -> Family:
        return Bernoulli() if len(self.classes_) == 2 else Categorical(len(self.classes_))

    def _check_classes(self):
        if len(self.classes_) < 2:
            raise ValueError(f"SteinClassifier needs at least two classes; y has one class, {self.classes_[0]!r}.")

    def _log_probabilities(self, X):
        outputs = self._outputs(self._validated(X))
        if outputs.shape[2] == 1:
            outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=2)
        return outputs - np.logaddexp.reduce(outputs, axis=2, keepdims=True)
