"""Windows: as long as asked for, from the corpus, the same for the same seed; and those that end at the same words."""

import tracemalloc

import numpy as np
import pytest
import torch

from llm_anatomy.training.data.windows import random_windows, windows_ending_at

CORPUS = torch.arange(1000, 1100)


def test_windows_are_runs_of_the_corpus_from_all_over_it():
    windows = random_windows(CORPUS, 7, 5, torch.Generator().manual_seed(0))
    drawn = torch.cat([next(windows) for _ in range(200)])
    assert drawn.shape == (1000, 8) and (drawn.diff() == 1).all()
    assert set(drawn[:, 0].tolist()) == set(range(1000, 1093))  # the first and the last window too


def test_the_seed_gives_the_batches():
    first, again, other = (random_windows(CORPUS, 7, 5, torch.Generator().manual_seed(seed)) for seed in (3, 3, 4))
    for _ in range(2):
        batch = next(first)
        assert torch.equal(batch, next(again)) and not torch.equal(batch, next(other))


@pytest.mark.parametrize(
    "dtype",
    ["uint8", "int16", "uint16", ">u2", "int32", "uint32", "int64", "uint64"],
    ids=lambda d: d.replace(">", "be"),
)
def test_arrays_and_tensors_of_every_integer_dtype_give_the_same_batches(dtype):
    ids = torch.arange(100)
    array = ids.numpy().astype(dtype)
    expected = next(random_windows(ids, 7, 5, torch.Generator().manual_seed(1)))
    corpora = [array] if dtype == ">u2" else [array, torch.from_numpy(array)]
    for corpus in corpora:
        batch = next(random_windows(corpus, 7, 5, torch.Generator().manual_seed(1)))
        assert batch.dtype == torch.int64 and torch.equal(batch, expected)


def test_ids_above_the_signed_range_stay_positive():
    batch = next(random_windows(np.full(9, 65_535, np.uint16), 4, 2, torch.Generator()))
    assert (batch == 65_535).all()


def test_of_a_file_only_the_windows_are_read(tmp_path):
    with open(tmp_path / "corpus.bin", "wb") as file:
        file.truncate(1 << 26)
    ids = np.memmap(tmp_path / "corpus.bin", np.uint16, mode="r+")
    ids[-3:] = 1, 2, 3
    ids = np.memmap(tmp_path / "corpus.bin", np.uint16, mode="r")  # its pages are read-only
    tracemalloc.start()
    windows = random_windows(ids, 64, 8, torch.Generator().manual_seed(0))
    batch = next(windows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert batch.shape == (8, 65) and peak < 1 << 20
    batch += 1  # it is a copy, not a view of the file
    assert next(random_windows(ids[-3:], 2, 1, torch.Generator())).tolist() == [[1, 2, 3]]


def test_batches_come_on_the_device_that_is_asked_for():
    for corpus in (CORPUS, CORPUS.numpy()):
        assert next(random_windows(corpus, 7, 5, torch.Generator(), device="meta")).device.type == "meta"
        assert next(random_windows(corpus, 7, 5, torch.Generator())).device.type == "cpu"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_corpus_generator_and_batches_may_be_on_different_devices():
    for corpus in (CORPUS, CORPUS.cuda(), CORPUS.numpy()):
        for device in (None, "cpu", "cuda"):
            for place in ("cpu", "cuda"):
                batch = next(random_windows(corpus, 7, 5, torch.Generator(place).manual_seed(0), device=device))
                assert (batch.diff() == 1).all()
                assert batch.device.type == (device or torch.as_tensor(corpus).device.type)


@pytest.mark.syllabus("IITD-17")
def test_windows_of_every_length_end_at_the_same_words():
    short, long = (windows_ending_at(CORPUS, [20, 41, 99], n) for n in (4, 19))
    assert long.shape == (3, 20) and torch.equal(short, long[:, -5:])
    assert long[:, -1].tolist() == [1020, 1041, 1099]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: random_windows(CORPUS, 0, 5, torch.Generator()), "n_tokens=0 must be at least 1"),
        (lambda: random_windows(CORPUS, 5, 0, torch.Generator()), "batch_size=0 must be at least 1"),
        (
            lambda: random_windows(CORPUS, 100, 5, torch.Generator()),
            "ids has 100 tokens; with n_tokens=100 there must be at least 101",
        ),
        (
            lambda: random_windows(CORPUS.view(2, 50), 5, 5, torch.Generator()),
            r"ids has the shape \(2, 50\); it must have one axis",
        ),
        (
            lambda: random_windows(CORPUS.float(), 5, 5, torch.Generator()),
            "ids has the dtype torch.float32; token ids are integers",
        ),
        (
            lambda: random_windows(np.zeros(9, bool), 5, 5, torch.Generator()),
            "ids has the dtype bool; token ids are integers",
        ),
        (
            lambda: random_windows(CORPUS.bool(), 5, 5, torch.Generator()),
            "ids has the dtype torch.bool; token ids are integers",
        ),
        (lambda: windows_ending_at(CORPUS, [50, 6], 7), "ends contain 6; each must be from n_tokens=7 to 99"),
        (lambda: windows_ending_at(CORPUS, [100], 7), "ends contain 100"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
