"""From `python` to a printed summary: how long a first answer takes, beside NUTS of BlackJAX and NumPyro.

    python -m benchmarks.latency              # medians of five, half an hour on a quiet machine
    python -m benchmarks.latency --rounds 1   # a look
    python -m benchmarks.latency --page       # also write the tables into docs/benchmarks.md

Every run is a process of its own: import, data, fit or 1,000 + 1,000 moves, and the printed summary, ours with its
verdict, theirs by ArviZ. Once the cache of compiled code is empty, once it is that of the run before. german is read
from the folder of data sets (`STEINFLOW_DATA`), or left out.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.pages import put

ROOT = Path(__file__).parents[1]
GERMAN = Path(os.environ.get("STEINFLOW_DATA", ROOT.parent / "shared" / "data")) / "classification" / "german.npz"

# A problem defines `density` of a vector, `dim`, and `model`, the same for NumPyro; ours is what a user would write.
_LOGISTIC = """
import jax, jax.numpy as jnp
def density(w):
    return jnp.sum(jax.nn.log_sigmoid(sign * (X @ w))) - 0.5 * jnp.sum(w**2)
dim = X.shape[1]
def model():
    import numpyro, numpyro.distributions as dist
    w = numpyro.sample("w", dist.Normal(0, 1).expand([dim]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=X @ w), obs=(sign + 1) / 2)
def ours(sf):
    return sf.Density(density, prior=lambda key: jax.random.normal(key, (dim,)))
"""
PROBLEMS = {
    "german, 21 parameters": f"""
import numpy as np
with np.load({str(GERMAN)!r}) as arrays:
    X, y = arrays["X"], arrays["y"]
X = np.hstack([X, np.ones((len(X), 1))]).astype(np.float32)
sign = np.where(y > 0, 1, -1).astype(np.float32)
{_LOGISTIC}""",
    "breast cancer, 31 parameters": f"""
import numpy as np
from sklearn.datasets import load_breast_cancer
X, y = load_breast_cancer(return_X_y=True)
X = np.hstack([(X - X.mean(0)) / X.std(0), np.ones((len(X), 1))]).astype(np.float32)
sign = np.where(y > 0, 1, -1).astype(np.float32)
{_LOGISTIC}""",
    "eight schools, 10 parameters": """
import numpy as np
y = np.array([28, 8, -3, 7, -1, 1, 18, 12], np.float32)
sigma = np.array([15, 10, 16, 11, 9, 11, 10, 18], np.float32)
dim = 10
def model():
    import numpyro, numpyro.distributions as dist
    mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", 8):
        theta = mu + tau * numpyro.sample("effect", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)
def density(x):
    import jax.numpy as jnp
    from jax.scipy.stats import cauchy, norm
    mu, tau, effect = x[0], jnp.exp(x[1]), x[2:]
    prior = norm.logpdf(mu, 0, 5) + cauchy.logpdf(tau, 0, 5) + x[1] + jnp.sum(norm.logpdf(effect))
    return prior + jnp.sum(norm.logpdf(y, mu + tau * effect, sigma))
def ours(sf):
    return sf.from_numpyro(model)
""",
}
CONTENDERS = {
    "steinflow": """
import steinflow as sf
print(sf.fit(ours(sf), progress=False).summary())
""",
    "BlackJAX's NUTS": """
import arviz, blackjax, jax, jax.numpy as jnp, numpy as np
warmup = blackjax.window_adaptation(blackjax.nuts, density)
(state, parameters), _ = warmup.run(jax.random.key(0), jnp.zeros(dim), num_steps=1000)
step = blackjax.nuts(density, **parameters).step
def move(state, key):
    state, _ = step(key, state)
    return state, state.position
draws = jax.jit(lambda state: jax.lax.scan(move, state, jax.random.split(jax.random.key(1), 1000))[1])(state)
print(arviz.summary(summarised({"x": np.asarray(draws)[None]})))
""",
    "NumPyro's NUTS": """
import arviz, jax, numpy as np
from numpyro.infer import MCMC, NUTS
mcmc = MCMC(NUTS(model), num_warmup=1000, num_samples=1000, progress_bar=False)
mcmc.run(jax.random.key(0))
print(arviz.summary(summarised({name: np.asarray(x)[None] for name, x in mcmc.get_samples().items()})))
""",
}
_AROUND = """
import json, sys, warnings
warnings.simplefilter("ignore")
import jax
compiled = []
def listen(event, duration, **_):
    if event == "/jax/core/compile/backend_compile_duration":
        compiled.append(duration)
jax.monitoring.register_event_duration_secs_listener(listen)
def summarised(draws):
    import arviz
    old = int(arviz.__version__.split(".")[0]) < 1
    return arviz.from_dict(draws) if old else arviz.from_dict({{"posterior": draws}})
{code}
sys.stdout.flush()
print(json.dumps(len(compiled)))
"""
# In one process: what a second fit and a look at a result take, and the imports.
_AGAIN = """
import json, time
start = time.perf_counter()
import jax
jax_imported = time.perf_counter()
import steinflow as sf
imported = time.perf_counter()
{problem}
target, seconds = ours(sf), {{}}
def clock(name, call):
    start = time.perf_counter()
    value = call()
    seconds[name] = time.perf_counter() - start
    return value
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, duration, **_: compiled.append(1) if event.endswith("backend_compile_duration") else None
)
clock("first fit", lambda: sf.fit(target, progress=False))
before = len(compiled)
result = clock("second fit", lambda: sf.fit(target, progress=False, key=1))
seconds["of which steps"] = result.info["seconds"]
clock("verdict and summary", lambda: str(result.summary()))
again = len(compiled) - before
large = sf.fit(target, sf.SVGD.paper(), num_particles=10_000, num_steps=1, progress=False)
clock("verdict and summary, n = 10,000", lambda: str(large.summary()))
imports = {{"import jax": jax_imported - start, "import steinflow beside it": imported - jax_imported}}
print(json.dumps({{**imports, **seconds, "compilations of the second fit": again}}))
"""
_TABLE = """
import json, time
from sklearn.datasets import load_diabetes
from sklearn.model_selection import cross_val_score
import steinflow as sf
X, y = load_diabetes(return_X_y=True)
sf.SteinRegressor
seconds = {}
for name in ("SteinRegressor on diabetes, first fit", "the same, second fit"):
    start = time.perf_counter()
    sf.SteinRegressor(random_state=0).fit(X, y)
    seconds[name] = time.perf_counter() - start
start = time.perf_counter()
cross_val_score(sf.SteinRegressor(random_state=0), X, y, cv=5)
seconds["the same, a fold of five"] = (time.perf_counter() - start) / 5
print(json.dumps(seconds))
"""
# The command line, on a table of its own for the second fit.
_COMMAND = """
import sys
import numpy as np
from steinflow.cli import command_line
rng = np.random.default_rng({seed})
X = rng.normal(size=(1000, 8))
y = X @ rng.normal(size=8) + rng.normal(size=1000)
np.savetxt("table.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,d,e,f,g,h,y", comments="")
sys.argv = ["steinflow", "fit", "table.csv", "--target", "y"]
command_line()()
"""


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts")
    parser.add_argument("--page", action="store_true", help="write the tables into docs/benchmarks.md")
    arguments = parser.parse_args()
    if not GERMAN.exists():
        print(f"{GERMAN} is not there: german is left out")
        del PROBLEMS["german, 21 parameters"]
    answers = {name: first_answers(problem, arguments.rounds) for name, problem in PROBLEMS.items()}
    parts = in_a_process(arguments.rounds)
    content = f"{where(arguments.rounds)}\n\n{answer_table(answers)}\n{part_table(parts)}"
    print(content)
    if arguments.page:
        put("docs/benchmarks.md", "latency", content)


def first_answers(problem, rounds):
    """Return for every contender the median seconds with an empty and a warm cache, and how often XLA compiled."""
    found = {}
    runs = {name: ([], [], []) for name in CONTENDERS}
    for _ in range(rounds):  # contenders in turns, so that all see the same machine
        for name, (empty, warm, counts) in runs.items():
            with tempfile.TemporaryDirectory() as cache:
                for seconds in (empty, warm):
                    took, printed = timed(_AROUND.format(code=problem + CONTENDERS[name]), cache)
                    seconds.append(took)
                    if seconds is empty:
                        counts.append(json.loads(printed))
                    print(f"{name}: {took:.2f} s", flush=True)
    for name, (empty, warm, counts) in runs.items():
        found[name] = statistics.median(empty), statistics.median(warm), statistics.median(counts)
    return found


def in_a_process(rounds):
    """Return the median of what parts of a run take, on breast cancer and on diabetes."""
    problem = PROBLEMS["breast cancer, 31 parameters"]
    runs = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            parts = json.loads(timed(_AGAIN.format(problem=problem), cache)[1])
        with tempfile.TemporaryDirectory() as cache:
            parts |= json.loads(timed(_TABLE, cache)[1])
        with tempfile.TemporaryDirectory() as folder:
            for seed, when in enumerate(("first time", "after that")):
                parts[f"`steinflow fit` on a table of 1,000 rows, {when}"], _ = timed(
                    _COMMAND.format(seed=seed), folder, cwd=folder
                )
        runs.append(parts)
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def timed(code, cache, cwd=None):
    """Return the seconds of a process, and its last line."""
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    start = time.perf_counter()
    run = subprocess.run([sys.executable, "-c", code], env=environment, cwd=cwd, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if run.returncode:
        raise RuntimeError(f"A measurement in a fresh process failed:\n{run.stderr}")
    return seconds, run.stdout.splitlines()[-1]


def answer_table(answers):
    lines = ["| from `python` to the summary | seconds, nothing compiled before | seconds, warm cache | compilations |"]
    lines.append("|---|---|---|---|")
    for problem, contenders in answers.items():
        lines += [
            f"| {problem}: {name} | {empty:.1f} | {warm:.1f} | {count:.0f} |"
            for name, (empty, warm, count) in contenders.items()
        ]
    return "\n".join(lines) + "\n"


def part_table(parts):
    lines = ["| in one process, breast cancer unless it says otherwise | seconds |", "|---|---|"]
    lines += [f"| {name} | {value:.3g} |" for name, value in parts.items()]
    return "\n".join(lines) + "\n"


def where(rounds):
    return (
        f"Medians of {rounds}, {datetime.date.today().isoformat()}, {os.cpu_count()} cores, {platform.machine()}, "
        f"Python {platform.python_version()}."
    )


if __name__ == "__main__":
    main()
