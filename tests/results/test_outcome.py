"""How a run ended, in words."""

from steinflow.results.outcome import Ending, Outcome


def test_an_ending_reads_as_a_sentence():
    assert str(Ending(Outcome.STEP_LIMIT, "all 10 steps are done.")) == "step limit: all 10 steps are done."


def test_outcomes_are_kept_by_their_words():
    """Which files hold."""
    assert [Outcome(str(outcome)) for outcome in Outcome] == list(Outcome)
    assert len(Outcome) == 6
