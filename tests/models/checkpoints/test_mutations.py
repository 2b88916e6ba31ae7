"""Mutated config.json files: refused in one sentence, or the model that Hugging Face's library reads from them."""

from collections import Counter

import pytest
from models.checkpoints.mutations import SEEDS, Folders, attempt


@pytest.mark.parametrize("share", [100, pytest.param(500, marks=pytest.mark.slow)])
def test_a_mutated_config_is_refused_or_read_as_the_reference_reads_it(share, tmp_path):
    """Of the files, evenly spread; the command of ``mutations.py`` tries all of them."""
    folders = Folders(tmp_path)
    found = [attempt(seed, folders) for seed in SEEDS[:: len(SEEDS) // share]]
    faults = [str(one) for one in found if one.word == "at fault"]
    assert not faults, "\n".join(faults)
    words = Counter(one.word for one in found)
    assert min(words["equal"], words["refused"]) > len(found) / 8
