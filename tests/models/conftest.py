"""For tests of models, which have many instances: shapes are checked in the first ones."""

from collections import Counter
from importlib.util import find_spec

import pytest

N_CHECKED = 3  # instances of each test; in the others a check of each call would take a third of the time
seen = Counter()


@pytest.fixture(autouse=True)
def shapes_are_checked_in_the_first_instances(request, monkeypatch):
    function = request.node.path, request.node.originalname
    seen[function] += 1
    if seen[function] > N_CHECKED and find_spec("jaxtyping"):
        from jaxtyping import config

        monkeypatch.setattr(config, "jaxtyping_disable", True)
