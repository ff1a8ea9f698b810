"""`steinflow demo`, `reproduce` and `benchmark`: see what it does, what the paper shows, and how fast it is."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

import steinflow
from steinflow.cli.console import Debug, Json, clear_errors, err, out, print_json, remark, table

_DIM, _BENCHMARK_STEPS = 50, 300


@clear_errors
def demo(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path("demo-output"),
    debug: Debug = False,
) -> None:
    """Show every step on real data, from a CSV file to a posterior and a report.

    The demo writes a table of 569 tumours as CSV, fits a logistic regression to it, and makes the report. It uses the
    same commands that you would type.
    """
    from steinflow.cli.app import app

    data, run = output / "tumours.csv", output / "run"
    output.mkdir(parents=True, exist_ok=True)
    _tumours().to_csv(data, index=False)
    for command in (
        ["fit", str(data), "--target", "diagnosis", "--output", str(run), "--overwrite"],
        ["report", str(run)],
    ):
        out.print(Text.assemble("\n$ ", (f"steinflow {' '.join(command)}", "bold")), soft_wrap=True)
        if code := _called(app, [*command, *(["--debug"] if debug else [])]):
            raise typer.Exit(code)
    out.print("\nOpen the report in a browser.")


def _called(app, arguments) -> int:
    """Run a command as the shell would, and return its exit code."""
    argv, sys.argv = sys.argv, ["steinflow", *arguments]
    try:
        app(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    finally:
        sys.argv = argv
    return 0


def _tumours():
    try:
        from sklearn.datasets import load_breast_cancer
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("The demo needs scikit-learn: pip install 'steinflow[sklearn]'.") from error
    bunch: Any = load_breast_cancer(as_frame=True)
    frame = bunch.frame.drop(columns="target")
    # The means of the measurements; their errors and extremes say much the same again.
    frame = frame[[name for name in frame.columns if name.startswith("mean ")]].rename(columns=lambda n: n[5:])
    return frame.assign(diagnosis=bunch.frame["target"].map({0: "malignant", 1: "benign"}))


@clear_errors
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Figures and tables of the paper. Default: all.")
    ] = None,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path("reproduced"),
    quick: Annotated[bool, typer.Option("--quick", help="Smaller runs that show the same effects.")] = False,
    list_them: Annotated[bool, typer.Option("--list", help="List the experiments and exit.")] = False,
    debug: Debug = False,
) -> None:
    """Repeat the experiments of the paper (Liu & Wang, 2016)."""
    from steinflow import paper

    if list_them:
        out.print(table("Experiments", ["name", ""], paper.NAMES.items(), numbers_from=2))
        return
    page = paper.reproduce(names or [], output=output, quick=quick)
    out.print(Text(f"The results are in {page}."), soft_wrap=True)


@clear_errors
def benchmark(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Take a tenth of the time, with less precision.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure the speed on this machine.

    In a checkout of the repository, this command runs the full benchmark, against other libraries and bare matrix
    products. An installed package measures only itself.
    """
    checkout = Path(steinflow.__file__).parents[1]
    if (checkout / "benchmarks" / "__main__.py").is_file() and not as_json:
        command = [sys.executable, "-m", "benchmarks", *(["--quick"] if quick else [])]
        raise typer.Exit(subprocess.run(command, cwd=checkout).returncode)
    remark("This measures only steinflow. To compare with other libraries, run `make benchmark` in the repository.")
    times = {n: _milliseconds_per_step(n, quick=quick) for n in (100, 1000)}
    if as_json:
        print_json({"dimensions": _DIM, "milliseconds_per_step": {str(n): value for n, value in times.items()}})
        return
    rows = [[f"{n:,}", f"{value:.2f}"] for n, value in times.items()]
    out.print(table(f"One step of SVGD in {_DIM} dimensions", ["particles", "milliseconds"], rows))


def _milliseconds_per_step(num_particles, *, quick):
    import jax

    few = _BENCHMARK_STEPS // (5 if quick else 1)
    particles = jax.random.normal(jax.random.key(0), (num_particles, _DIM))

    def seconds(steps):
        clock = time.perf_counter()
        steinflow.fit(_gaussian, particles=particles, num_steps=steps, record_every=steps, progress=False)
        return time.perf_counter() - clock

    with err.status(f"{num_particles:,} particles ..."):
        seconds(few)  # compiles
        # Two lengths, so that what a call costs once drops out.
        times = [min(seconds(steps) for _ in range(3)) for steps in (few, 3 * few)]
    return 1e3 * max(times[1] - times[0], 0.0) / (2 * few)


def _gaussian(x):
    return -0.5 * (x @ x)
