import pytest
from runs import run


def all_particles(x):
    return x


@pytest.fixture(scope="session")
def short_run():
    """Twenty steps, with the particles after every one of them."""
    return run(record={"x": all_particles}, record_every=1)
