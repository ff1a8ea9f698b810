"""The verdict in words, for users of the command line: what to do, as options to add, without Python."""

from steinflow.results.verdict import Remedy
from steinflow.tables.runs import Run

WORDS = {"green": "Trust it", "yellow": "Look closer", "red": "Do not trust it"}
MODEL_WORDS = {
    "green": "model: no misfit found",
    "yellow": "model: look closer, it may not fit",
    "red": "model: it does not fit, so what follows from it may be wrong",
}
# None is what cannot be done from here.
ADVICE: dict[Remedy, str | None] = {
    Remedy.MORE_STEPS: "take more steps: --steps {more_steps}",
    Remedy.MORE_PARTICLES: "use more particles: --particles {more_particles}",
    Remedy.ENOUGH_PARTICLES: "use at least 20 particles, preferably 100: --particles 100",
    Remedy.DEFAULT_METHOD: "use the default method: leave out --method",
    Remedy.LARGER_BATCHES: "use larger batches: --batch-size {larger_batch}",
    Remedy.REREAD: None,
    Remedy.SMALLER_STEPS: "compare with the default method: leave out --method",
    Remedy.MORE_CHAINS: None,
    Remedy.NUTS: "compare with NUTS: --method nuts",
    Remedy.WIDER_START: "compare with another start: --seed {other_seed}",
    Remedy.ANNEALING: None,
    Remedy.ORDER: None,
    Remedy.WEIGHTS: None,
    Remedy.QUANTILES: "report quantiles where a tail is long: --json has them",
    Remedy.CLOSER_START: None,
    Remedy.CONSTRAINTS: None,
    Remedy.LESS_FREE: "give the network fewer units: --hidden 16",
    Remedy.LESS_SURE: "compare with a model that is not a network: leave out --model",
    Remedy.LOG_SPACE: "look for extreme values in the table",
    Remedy.UNIT_SCALE: "look for extreme values in the table",
    Remedy.DOUBLE_PRECISION: "use double precision: set JAX_ENABLE_X64=1",
}

_JUDGE = "judge a network by the held-out rows, not by the spread of its weights"


def advice(run: Run) -> list[str]:
    """Return what to do about the verdict on a run, each once."""
    settings = run.settings
    numbers = {
        "more_steps": 4 * settings["num_steps"],
        "more_particles": 4 * settings["num_particles"],
        "larger_batch": 4 * (settings["batch_size"] or 1),
        "other_seed": settings["seed"] + 1,
    }
    remedies = list(run.result.verdict.remedies)
    texts = [ADVICE[remedy] for remedy in remedies]
    if settings["method"] == run.problem.default_method and Remedy.DEFAULT_METHOD in remedies:
        texts[remedies.index(Remedy.DEFAULT_METHOD)] = _JUDGE if run.problem.hidden else None
    return list(dict.fromkeys(text.format(**numbers) for text in texts if text is not None))


def sentence(text: str) -> str:
    """Return text with a capital letter and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
