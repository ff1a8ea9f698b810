"""What only a fresh process can tell: memory at its highest, the time of an import, the time of a first step."""

import json
import subprocess
import sys

MEMORY = """
import json, re, time
from pathlib import Path
import jax, jax.numpy as jnp, steinflow as sf
x0 = jax.random.normal(jax.random.key(0), ({n}, {dim}))
start = time.perf_counter()
result = sf.fit(lambda x: -0.5 * jnp.sum(x**2), sf.SVGD.paper(), particles=x0, num_steps=2, progress=False)
assert jnp.all(jnp.isfinite(result.particles))
# Not getrusage: its peak includes the memory that the parent process had when it started this one.
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
print(json.dumps(dict(gigabytes=peak * 1024 / 1e9, seconds=time.perf_counter() - start)))
"""

FIRST_STEP = """
import json, time
start = time.perf_counter()
import steinflow as sf
imported = time.perf_counter()
import jax, jax.numpy as jnp
x0 = jax.random.normal(jax.random.key(0), (100, 2))
ready = time.perf_counter()
sf.fit(lambda x: -0.5 * jnp.sum(x**2), {method}, particles=x0, num_steps=1, progress=False)
print(json.dumps(dict(imported=imported - start, first_step=time.perf_counter() - ready)))
"""


def peak_memory(num_particles, dim):
    """Return gigabytes, and seconds of two steps, of an exact fit; on Linux."""
    return _run(MEMORY.format(n=num_particles, dim=dim))


def import_and_first_step(method, *, rounds):
    """Return seconds of `import steinflow` and of a first step with its compilation, the best of some rounds."""
    runs = [_run(FIRST_STEP.format(method=method)) for _ in range(rounds)]
    return {name: min(run[name] for run in runs) for name in runs[0]}


def _run(code):
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if process.returncode:
        raise RuntimeError(f"A measurement in a fresh process failed:\n{process.stderr}")
    return json.loads(process.stdout.splitlines()[-1])
