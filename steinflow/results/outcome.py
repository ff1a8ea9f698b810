"""How a run ended: one of six outcomes, and a sentence that says what to do next."""

import dataclasses
import enum


class Outcome(enum.Enum):
    """How a run ended. Whether to believe the result is a question for the verdict."""

    STEP_LIMIT = "step limit"
    SETTLED = "settled"  # the method knows enough
    STOPPED = "stopped"  # by a rule, which the message names
    INTERRUPTED = "interrupted"
    DATA_ENDED = "data ended"
    NON_FINITE = "non-finite"

    def __str__(self):
        return self.value


@dataclasses.dataclass(frozen=True)
class Ending:
    """How a run ended.

    Attributes:
        outcome: one of the six outcomes.
        message: one or two sentences about this run, with what to do next if anything needs doing.
    """

    outcome: Outcome
    message: str

    def __str__(self):
        return f"{self.outcome}: {self.message}"
