"""The main job on two problems: the paper's mixture, and a Bayesian logistic regression on real data.

Run it with `make demo`; plots go to demo-output/.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import steinflow as sf
from steinflow.devices.caches import keep_compiled

OUTPUT = Path("demo-output")


def main():
    keep_compiled()  # the second time, nothing is compiled
    OUTPUT.mkdir(exist_ok=True)
    mixture()
    logistic_regression()
    print(f"\nThe plots are in {OUTPUT.resolve()}")


# ---- 1. A mixture of two Gaussians, from a start far from both ----


def mixture_log_density(x):
    """1/3 N(-2, 1) + 2/3 N(2, 1): the paper's first example."""
    return jnp.logaddexp(norm.logpdf(x, -2) + jnp.log(1 / 3), norm.logpdf(x, 2) + jnp.log(2 / 3))


def mixture():
    heading("The paper's mixture, 1/3 N(-2, 1) + 2/3 N(2, 1), from N(-10, 1)")
    start = -10 + jax.random.normal(jax.random.key(0), (100,))
    result = sf.fit(
        mixture_log_density,
        particles=start,
        num_steps=300,
        key=1,
        record={"particles": lambda particles: particles},
        record_every=6,
    )
    print(result.summary())
    print("\n       particles   truth")
    print(f"mean   {result.mean():9.3f}   {2 / 3:5.3f}")
    print(f"sd     {result.sd():9.3f}   {np.sqrt(41 / 9):5.3f}")

    def truth(axis):
        grid = jnp.linspace(-14, 7, 400)
        axis.plot(grid, jnp.exp(mixture_log_density(grid)), "--", color="black", linewidth=1, label="truth")
        axis.set(xlim=(-14, 7), ylim=(-0.03, 0.45))
        axis.legend(loc="upper left", frameon=False)

    figure = sf.plots.marginals(result)
    truth(figure.axes[0])
    figure.savefig(OUTPUT / "mixture-marginal.png")
    sf.plots.motion(result).savefig(OUTPUT / "mixture-motion.png")
    sf.plots.trace(result).savefig(OUTPUT / "mixture-trace.png")
    sf.plots.animate(result, OUTPUT / "mixture.gif", decorate=truth)


# ---- 2. Logistic regression: is a tumour malignant? ----


def log_prior(params):
    """Weights ~ N(0, 1/precision), precision ~ Gamma(1, rate 0.01)."""
    log_weights = jnp.sum(norm.logpdf(params["weights"], scale=params["precision"] ** -0.5))
    return log_weights - 0.01 * params["precision"]


def log_likelihood(params, rows):
    """One value per row."""
    return jax.nn.log_sigmoid(rows["sign"] * (rows["features"] @ params["weights"]))


def logistic_regression():
    heading("Bayesian logistic regression, breast cancer data: 30 features and a constant")
    train, test = breast_cancer()

    def prior(key):  # somewhere to start
        draws = jax.random.normal(key, (32,))
        return {"weights": draws[1:], "precision": jnp.exp(draws[0])}

    posterior = sf.Posterior(
        log_prior,
        log_likelihood,
        train,
        prior=prior,
        constraints={"weights": None, "precision": sf.constraints.positive},
    )
    result = sf.fit(posterior, num_particles=200, num_steps=1000, key=1)
    print(result.summary())

    # The probability of the true class, averaged over the posterior.
    log_probabilities = jax.vmap(log_likelihood, in_axes=(0, None))(result.particles, test)
    log_mean = logsumexp(log_probabilities, axis=0) - jnp.log(len(result))
    print(f"\nOn {len(test['sign'])} held-out patients:")
    print(f"accuracy         {jnp.mean(log_mean > jnp.log(0.5)):.3f}")
    print(f"log-likelihood  {jnp.mean(log_mean):.3f} per patient")

    mean, sd = result.mean()["weights"], result.sd()["weights"]
    print("\nThe clearest evidence for (+) or against (-) a malignant tumour:")
    for index in np.argsort(-np.abs(mean[:-1] / sd[:-1]))[:5]:
        print(f"{load_breast_cancer().feature_names[index]:<25}{mean[index]:+.2f} ± {sd[index]:.2f}")

    sf.plots.marginals(result, parameters=["precision", "weights"]).savefig(OUTPUT / "regression-marginals.png")
    some = ["precision", "weights[0]", "weights[2]", "weights[20]", "weights[21]"]
    sf.plots.pairs(result, parameters=some).savefig(OUTPUT / "regression-pairs.png")
    sf.plots.trace(result).savefig(OUTPUT / "regression-trace.png")


def breast_cancer():
    """Standardised features with a constant, and the diagnosis as a sign; 80% to learn from, 20% to test on."""
    features, benign = load_breast_cancer(return_X_y=True)
    sign = np.where(benign == 0, 1.0, -1.0)
    learn, check, sign_learn, sign_check = train_test_split(
        features, sign, test_size=0.2, random_state=0, stratify=sign
    )
    scaler = StandardScaler().fit(learn)

    def rows(features, sign):
        constant = np.ones((len(features), 1))
        return {"features": jnp.asarray(np.hstack([scaler.transform(features), constant])), "sign": jnp.asarray(sign)}

    return rows(learn, sign_learn), rows(check, sign_check)


def heading(text):
    print(f"\n{text}\n{'=' * len(text)}")


if __name__ == "__main__":
    main()
