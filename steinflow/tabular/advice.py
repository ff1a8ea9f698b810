"""What a verdict advises, for somebody who types commands: with the option to add, and without Python."""

from steinflow.tabular.runs import Run

# By what `steinflow.verdicts` says; None is what cannot be done from here.
ADVICE: dict[str, str | None] = {
    "take more steps": "take more steps: --steps {more_steps}",
    "use more particles": "use more particles: --particles {more_particles}",
    "use at least 20 particles, better 100": "use at least 20 particles, better 100: --particles 100",
    "use the default method, whose kernel reaches further": "use the default method: leave out --method",
    "take larger batches": "take larger batches: --batch-size {larger_batch}",
    "compare with NUTS: result.checked()": "compare with NUTS: --method nuts",
    "compare with a wider start": "compare with another start: --seed {other_seed}",
    "compare with sf.Annealed(sf.SVGD())": None,
    "weigh them: result.reweighted()": None,
    "start closer to the posterior": None,
    "start closer": None,
    "write the log density with log-space functions": "look for values far out in the table",
    "bring the parameters to a scale near 1": "look for values far out in the table",
    "use double precision": "use double precision: set JAX_ENABLE_X64=1",
}


def advice(run: Run) -> list[str]:
    """Return what to do about the verdict on a run, each once."""
    settings = run.settings
    figures = {
        "more_steps": 4 * settings["num_steps"],
        "more_particles": 4 * settings["num_particles"],
        "larger_batch": 4 * (settings["batch_size"] or 1),
        "other_seed": settings["seed"] + 1,
    }
    wanted = (ADVICE.get(remedy, remedy) for remedy in run.result.verdict.remedies)
    return list(dict.fromkeys(text.format(**figures) for text in wanted if text is not None))
