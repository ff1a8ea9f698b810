"""Time to the accuracy of 1,000 NUTS draws: the default SVGD beside BlackJAX and NumPyro."""

import time

import jax
import numpy as np

import steinflow as sf
from steinflow.paper import datasets
from steinflow.targets.flat import flatten


def moments(result):
    return [np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(t)]) for t in (result.mean(), result.sd())]


def spread_error(ratio):
    return float(np.sqrt(np.mean((ratio - 1) ** 2)))


def draws_moments(draws):
    return np.mean(draws, axis=0), np.std(draws, axis=0)


def blackjax_nuts(model):
    """1,000 warm-up steps and 1,000 draws of one chain, all in one compiled call."""
    import blackjax

    flat, x = flatten(model, jax.tree.map(lambda leaf: leaf[None], model.sample_prior(jax.random.key(0))))

    @jax.jit
    def run(x, key):
        warm_key, key = jax.random.split(key)
        warmup = blackjax.window_adaptation(blackjax.nuts, flat.log_density)
        adapted, _ = warmup.run(warm_key, x, 1000)
        kernel = blackjax.nuts(flat.log_density, **adapted.parameters)

        def step(state, key):
            state, _ = kernel.step(key, state)
            return state, state.position

        return jax.lax.scan(step, adapted.state, jax.random.split(key, 1000))[1]

    return lambda seed: np.asarray(run(x[0], jax.random.key(seed)))


def numpyro_nuts(model):
    from numpyro.infer import MCMC, NUTS

    flat, x = flatten(model, jax.tree.map(lambda leaf: leaf[None], model.sample_prior(jax.random.key(0))))
    chain = MCMC(
        NUTS(potential_fn=lambda x: -flat.log_density(x)), num_warmup=1000, num_samples=1000, progress_bar=False
    )

    def run(seed):
        chain.run(jax.random.key(seed), init_params=x[0])
        return np.asarray(chain.get_samples())

    return run


def clock(run, *arguments):
    started = time.perf_counter()
    value = run(*arguments)
    return value, time.perf_counter() - started


def time_to_accuracy(names):
    print("| data | method | error of means | error of sds | seconds | with compilation |\n|---|---|---|---|---|---|")
    for name in names:
        (X, y), _ = datasets.load(name).split(0)
        model = sf.models.LogisticRegression(X[:1000], y[:1000])
        truth = moments(sf.fit(model, sf.NUTS(), num_steps=5_000, key=99, progress=False))

        def errors(mean, sd, truth=truth):
            error = np.sqrt(np.mean(((mean - truth[0]) / truth[1]) ** 2))
            return float(error), spread_error(sd / truth[1])

        goal = np.zeros(2)
        for label, make in (("BlackJAX NUTS", blackjax_nuts), ("NumPyro NUTS", numpyro_nuts)):
            run = make(model)
            draws, first = clock(run, 0)
            found = [errors(*draws_moments(draws))]
            again = []
            for seed in (1, 2):
                draws, seconds = clock(run, seed)
                again.append(seconds)
                found.append(errors(*draws_moments(draws)))
            mean = np.mean(found, axis=0)
            goal = np.maximum(goal, mean)
            print(f"| {name} | {label} | {mean[0]:.3f} | {mean[1]:.3f} | {min(again):.2f} | {first:.2f} |", flush=True)

        reached = False
        for steps in (100, 200, 300, 500, 1000):

            def run(seed, steps=steps, model=model):
                settings = {"num_particles": 200, "num_steps": steps, "record_every": steps}
                return sf.fit(model, sf.SVGD(), key=seed, progress=False, **settings)

            jax.clear_caches()
            result, first = clock(run, 0)
            found = [errors(*moments(result))]
            result, seconds = clock(run, 1)
            found.append(errors(*moments(result)))
            mean = np.mean(found, axis=0)
            reached = bool(np.all(mean <= goal))
            label = f"SVGD, {steps} steps" + (", as accurate" if reached else "")
            print(f"| {name} | {label} | {mean[0]:.3f} | {mean[1]:.3f} | {seconds:.2f} | {first:.2f} |", flush=True)
            if reached:
                break
        if not reached:
            print(f"| {name} | SVGD did not get there | | | | |", flush=True)
