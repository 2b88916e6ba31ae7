"""What tests of the lab share: a process that forks others."""

import pytest
from training.lab.forks import forking


@pytest.fixture(scope="session")
def forks():
    with forking() as found:
        yield found
