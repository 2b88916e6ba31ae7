"""Batches: each epoch is a permutation of all sequences, and a position means the same for any number of processes."""

from itertools import islice

import numpy as np
import pytest
import torch

from llm_anatomy.training.data.batches import Sequences, loader, shuffled
from llm_anatomy.training.data.shards import ShardWriter, TokenShards

LENGTHS = [5, 9, 2, 30, 1, 13]


@pytest.fixture
def folder(tmp_path):
    """60 tokens, numbered, in 6 documents and 3 shards; the prediction of even tokens counts."""
    writer, first = ShardWriter(tmp_path, n_vocab=60, has_targets=True, shard_tokens=20), 0
    for n in LENGTHS:
        ids = np.arange(first, first := first + n)
        writer.add("train", ids, ids % 2 == 0)
        writer.read(1)
    writer.finish()
    return tmp_path


def sequences(folder, n_tokens=7, **options):
    return Sequences(TokenShards(folder, "train"), n_tokens, **options)


@pytest.mark.syllabus("GT-03")
def test_an_epoch_predicts_each_token_once_and_goes_on_with_the_next(folder):
    data = sequences(folder)
    assert len(data) == 8
    for epoch in range(3):
        batch = data.batch(range(epoch * 8, epoch * 8 + 8))
        assert batch.ids.dtype == torch.int64 and batch.ids.shape == (8, 8)
        assert sorted(batch.ids[:, 1:].flatten().tolist()) == list(range(1, 57))
        assert torch.equal(batch.targets, batch.ids[:, 1:] % 2 == 0)
    orders = [data.batch(range(e * 8, e * 8 + 8)).ids[:, 0].tolist() for e in range(3)]
    assert orders[0] != orders[1] != orders[2] != orders[0]
    across = data.batch([7, 8, 20]).ids
    assert torch.equal(across, torch.cat([data.batch([n]).ids for n in (7, 8, 20)]))


def test_the_seed_gives_the_order(folder):
    first, again, other = (sequences(folder, seed=seed).batch(range(16)).ids for seed in (3, 3, 4))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_documents_are_numbered_within_each_row(folder):
    of_token = torch.tensor(np.repeat(range(6), LENGTHS))
    batch = sequences(folder, mask_documents=True).batch(range(8))
    expected = of_token[batch.ids[:, :-1]]
    assert torch.equal(batch.documents, expected - expected[:, :1]) and batch.documents.max() == 2
    assert sequences(folder).batch([0]).documents is None


def test_without_targets_all_of_them_count(tmp_path):
    writer = ShardWriter(tmp_path, n_vocab=9)
    writer.add("train", range(9))
    writer.finish()
    batch = sequences(tmp_path, n_tokens=8, mask_documents=True).batch([0])
    assert batch.targets is None and batch.ids.tolist() == [list(range(9))] and batch.documents.tolist() == [[0] * 8]


# --- The order ---


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 17, 99, 100, 101, 4096, 10_007])
def test_each_epoch_is_a_permutation(n):
    for seed, epoch in [(0, 0), (0, 1), (1, 0), (2**64 - 1, 10**6)]:
        assert np.array_equal(np.sort(shuffled(range(n), n, seed, [epoch] * n)), np.arange(n))


def test_one_call_may_ask_for_several_epochs_and_for_any_part():
    whole = shuffled(range(50), 50, 7, [3] * 50)
    assert shuffled([4, 9, 4], 50, 7, [3, 3, 5]).tolist()[:2] == whole[[4, 9]].tolist()


def test_large_corpora_need_no_table():
    n = 2**62
    found = shuffled([0, 1, n - 1], n, 0, [0, 0, 0])
    assert len(set(found.tolist())) == 3 and (found >= 0).all() and (found < n).all()


def z_scores(counts, expected):
    return (np.asarray(counts) - expected) / np.sqrt(expected)


@pytest.mark.parametrize("n", [2, 3, 5, 12, 40])
def test_over_the_epochs_each_sequence_is_everywhere_equally_often(n):
    """Chi-squared against its mean and standard deviation; 4 standard deviations."""
    n_epochs = 200 * n
    epochs = np.repeat(np.arange(n_epochs), n)
    found = shuffled(np.tile(np.arange(n), n_epochs), n, 0, epochs).reshape(n_epochs, n)
    for position in {0, n // 2, n - 1}:
        chi2 = np.square(z_scores(np.bincount(found[:, position], minlength=n), n_epochs / n)).sum()
        assert abs(chi2 - (n - 1)) < 4 * np.sqrt(2 * (n - 1)), position
    pairs = np.bincount(found[:, 0] * n + found[:, 1], minlength=n * n).reshape(n, n)
    assert (pairs.diagonal() == 0).all()
    chi2 = np.square(z_scores(pairs[~np.eye(n, dtype=bool)], n_epochs / (n * (n - 1)))).sum()
    assert abs(chi2 - (n * (n - 1) - 1)) < 4 * np.sqrt(2 * n * (n - 1))


@pytest.mark.parametrize("n", [1000, 4097])
def test_within_an_epoch_neighbours_and_epochs_and_seeds_are_unrelated(n):
    def rank_correlation(a, b):
        return np.corrcoef(a, b)[0, 1] * np.sqrt(len(a))  # about a standard normal

    orders = [shuffled(range(n), n, seed, [epoch] * n) for seed in (0, 1) for epoch in range(4)]
    for i, order in enumerate(orders):
        assert abs(rank_correlation(order[1:], order[:-1])) < 4 and abs(rank_correlation(order, np.arange(n))) < 4
        steps = np.diff(order) % n
        assert np.bincount(steps, minlength=n).max() < 12  # a step that comes back often would be a pattern
        assert all(abs(rank_correlation(order, other)) < 4.5 for other in orders[:i])


# --- Steps and processes ---


def first_ids(batches, n):
    return [batch.ids[:, 0].tolist() for batch in islice(batches, n)]


@pytest.mark.parametrize("world_size", [1, 2, 3, 6])
@pytest.mark.parametrize("first", [0, 13])
def test_the_processes_share_the_same_sequences_whatever_their_number(folder, world_size, first):
    data = sequences(folder)
    of_ranks = [
        first_ids(loader(data, first=first, batch_size=6, rank=rank, world_size=world_size), 4)
        for rank in range(world_size)
    ]
    for step in range(4):
        together = [start for rank in of_ranks for start in rank[step]]
        assert together == data.batch(range(first + 6 * step, first + 6 * step + 6)).ids[:, 0].tolist()


def test_a_run_that_goes_on_sees_what_an_undisturbed_one_sees(folder):
    data = sequences(folder)
    whole = first_ids(loader(data, first=0, batch_size=6), 7)
    assert first_ids(loader(data, first=18, batch_size=6), 4) == whole[3:]
    halves = first_ids(loader(data, first=18, batch_size=3), 8)
    assert [a + b for a, b in zip(halves[::2], halves[1::2], strict=True)] == whole[3:]


def test_reading_ahead_changes_nothing_and_the_global_generator_neither(folder):
    data = sequences(folder, mask_documents=True)
    before = torch.get_rng_state()
    batches = loader(data, first=2, batch_size=4)
    expected = list(islice(batches, 5))
    assert first_ids(batches, 1) == [expected[0].ids[:, 0].tolist()]  # each iterator begins anew
    for batch, same in zip(islice(loader(data, first=2, batch_size=4, workers=2), 5), expected, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(batch, same, strict=True))
    assert torch.equal(torch.get_rng_state(), before)


# --- What is refused ---


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"first": -1, "batch_size": 4}, "first=-1 must be at least 0"),
        ({"first": 0, "batch_size": 0}, "batch_size=0"),
        ({"first": 0, "batch_size": 4, "world_size": 3}, "world_size=3 processes must share batch_size=4 equally"),
        ({"first": 0, "batch_size": 4, "rank": 2, "world_size": 2}, "rank=2"),
    ],
)
def test_what_cannot_be_shared_is_refused(folder, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        loader(sequences(folder), **options)


def test_sequences_that_the_split_does_not_hold_are_refused(folder):
    with pytest.raises(ValueError, match="n_tokens=0 must be at least 1"):
        sequences(folder, n_tokens=0)
    with pytest.raises(ValueError, match="has 60 tokens; with n_tokens=60 it must have at least 61"):
        sequences(folder, n_tokens=60)
    assert len(sequences(folder, n_tokens=59)) == 1


def test_rows_that_were_packed_for_another_length_are_refused(tmp_path):
    writer = ShardWriter(tmp_path, n_vocab=9, row_length=4)
    writer.add("train", range(9))
    writer.finish()
    assert len(sequences(tmp_path, n_tokens=4)) == 2
    with pytest.raises(ValueError, match="n_tokens=3 must be 4, for which .* was packed"):
        sequences(tmp_path, n_tokens=3)
