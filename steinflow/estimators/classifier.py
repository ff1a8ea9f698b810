"""Bayesian classification with the interface of scikit-learn."""

import warnings

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from steinflow.estimators.base import SteinEstimator, Watch, is_linear
from steinflow.estimators.mixtures import log_mean_exp
from steinflow.estimators.rows import checked_data, checked_rows
from steinflow.models.families import Bernoulli, Categorical
from steinflow.models.formulas.separation import separated
from steinflow.models.heads import Head

_UNSCALED = (0.0, 1.0)


class SteinClassifier(ClassifierMixin, SteinEstimator):
    """Bayesian logistic regression for two or more classes, or a neural network.

    Features are standardised inside; the precision of the weights is inferred, with a Gamma prior, or with hidden
    layers a scale for every layer. Arguments and attributes are those of `steinflow.estimators.SteinEstimator`;
    `classes_` are the labels, and `coef_` has one row per class, or one row for two classes.

    Example:
        ```python
        from sklearn.datasets import load_iris
        import steinflow as sf

        X, y = load_iris(return_X_y=True)
        probabilities = sf.SteinClassifier(random_state=0).fit(X, y).predict_proba(X)
        ```
    """

    def fit(self, X, y, *, watch: Watch | None = None):
        """Find the posterior given the rows of X and their labels y, and return the estimator itself.

        `watch` says what to show and record during the run. Features that separate the classes, so that only the prior
        bounds their effects, are warned about.

        Raises:
            ValueError: if X cannot be used, for example because values are missing, or if y has fewer than two classes.
        """
        model = self._prepared(X, y)
        if is_linear(self):
            rows, codes = checked_rows(self, X), np.asarray(model.data.values["y"], int)
            for note in separated(rows, codes, list(self._feature_labels(rows.shape[1]))):
                warnings.warn(note, UserWarning, stacklevel=2)
        return self._run(model, watch or Watch(), None)

    @available_if(is_linear)
    def partial_fit(self, X, y, classes=None):
        """Continue with more rows: the posterior so far, as a Gaussian, becomes the prior.

        The first call sets the scaling. It also needs `classes`, all labels that any call will contain.

        Raises:
            ValueError: if y has a label that is not among the classes, or if the first call has no `classes`.
        """
        first = "result_" not in vars(self)
        X, y = checked_data(self, X, y, reset=first)
        check_classification_targets(y)
        if first:
            if classes is None:
                raise ValueError("The first call of partial_fit needs classes=, all labels that any call will contain.")
            self._set_classes(classes)
        codes = self._codes(y)
        return self._run(self._scaled(X, codes, _UNSCALED), Watch(), None) if first else self._continue(X, codes)

    def predict_proba(self, X):
        """Return the posterior mean of the probability of every class."""
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X):
        """Return the logarithm of `predict_proba`."""
        return self._by_rows(lambda forms: log_mean_exp(self._family.log_probabilities(forms), self._weights), X)

    def predict(self, X):
        """Return the most probable label of every row."""
        best = np.argmax(self.predict_log_proba(X), axis=1)
        return self.classes_[best]

    def log_predictive(self, X, y):
        """Return the log probability of the label y under the posterior predictive distribution, for every row.

        Raises:
            ValueError: if y has a label that is not among the classes.
        """
        logs = self.predict_log_proba(X)
        codes = self._codes(column_or_1d(y))
        check_consistent_length(logs, codes)
        return logs[np.arange(len(logs)), codes]

    @property
    def coef_(self):
        """The posterior mean of the coefficients."""
        return np.einsum("p,pdk->kd", self._weights, self._coefficients()[1])

    @property
    def intercept_(self):
        """The posterior mean of the intercepts."""
        return self._weights @ self._coefficients()[0]

    def coefficients(self):
        """Return mean, sd and quantiles of intercepts and coefficients as a pandas DataFrame, by feature and class."""
        return self._coefficient_frame(self.classes_ if len(self.classes_) > 2 else None)

    @property
    def _head(self) -> Head:
        return Head(self._family)

    @property
    def _family(self) -> Bernoulli | Categorical:
        return Bernoulli() if len(self.classes_) == 2 else Categorical(len(self.classes_))

    def _prepared(self, X, y):
        X, y = checked_data(self, X, y, reset=True)
        check_classification_targets(y)
        self._set_classes(y)
        return self._scaled(X, self._codes(y), _UNSCALED)

    def _set_classes(self, labels):
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            only = self.classes_.tolist()[0]
            raise ValueError(f"SteinClassifier needs at least two classes; y has one class, {only!r}.")

    def _codes(self, y):
        """Return the number of the class of every label."""
        unknown = set(np.asarray(y).tolist()) - set(self.classes_.tolist())
        if unknown:
            raise ValueError(
                f"y has labels that are not among the classes {self.classes_.tolist()}: {sorted(unknown, key=str)}. "
                "Leave these rows out, or fit to rows of all classes."
            )
        return np.searchsorted(self.classes_, y)
