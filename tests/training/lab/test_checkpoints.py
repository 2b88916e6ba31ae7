"""A run that was interrupted goes on as if nothing had happened, whatever happens to its files.

What broke others is planted here, and the tests must see it.
"""

import copy
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader

from llm_anatomy.config import ModelConfig
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.training.lab import checkpoints as module
from llm_anatomy.training.lab.checkpoints import (
    Checkpoints,
    DamagedCheckpoint,
    restore_training_state,
    training_state,
)

HERE = Path(__file__).parent


def small(seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Embedding(11, 6), nn.Dropout(0.2), nn.Linear(6, 7), nn.Linear(7, 11))
    groups = [{"params": [p for p in model.parameters() if p.ndim == n], "weight_decay": 0.1 * (n - 1)} for n in (2, 1)]
    return model, torch.optim.AdamW(groups, lr=0.01)


def step(model, optimizer, ids=(1, 4, 2, 8)):
    ids = torch.as_tensor(ids)
    loss = F.cross_entropy(model(ids[:-1]), ids[1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def saved(folder, *steps, **options):
    """Checkpoints of a model that has done the given numbers of steps."""
    model, optimizer = small()
    checkpoints = Checkpoints(folder, **{"fingerprint": {}} | options)
    for number in range(1, max(steps) + 1):
        step(model, optimizer)
        if number in steps:
            checkpoints.save(number, training_state(model, optimizer, number=number), loss=None)
    checkpoints.wait()
    return checkpoints, model, optimizer


def equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def n_done(optimizer):
    return {int(state["step"]) for state in optimizer.state.values()}


# --- Resuming ---


def run(folder, n_steps, *, planted=None, until=None):
    """A run over several epochs of three steps, which resumes if it can, and may stop early."""
    model, optimizer = small()
    checkpoints, losses, position = Checkpoints(folder, fingerprint={"n_steps": n_steps}), [], 0
    resumed = checkpoints.resume(lambda: training_state(model, optimizer))
    if resumed is not None:
        position = restore_training_state(model, optimizer, resumed[1])["position"]
        if planted == "the epoch of the sampler begins again":
            position %= 3
    done = resumed[0] if resumed else 0
    order = iter([])
    for number in range(done + 1, (until or n_steps) + 1):
        if planted == "an iterator draws from the global generator":
            if number == done + 1 or position % 3 == 0:
                order = iter(DataLoader(range(3)))
            next(order)
        rows = torch.randperm(3, generator=torch.Generator().manual_seed(position // 3))
        ids = (torch.arange(5) * (1 + rows[position % 3]) + random.randrange(3) + np.random.randint(3)) % 11
        losses.append(step(model, optimizer, ids))
        position += 1
        checkpoints.save(number, training_state(model, optimizer, position=position), losses[-1])
    checkpoints.close()
    return model, losses


def differences(folder, planted):
    """Whether losses and weights are those of an undisturbed run."""
    random.seed(0)
    np.random.seed(0)
    undisturbed, losses = run(folder / "undisturbed", 9, planted=planted)
    random.seed(0)
    np.random.seed(0)
    _, first = run(folder / "resumed", 9, planted=planted, until=4)
    random.seed(7)
    np.random.seed(7)
    torch.rand(5)
    resumed, second = run(folder / "resumed", 9, planted=planted)
    return first + second == losses, equal(resumed, undisturbed)


def each_difference(folder):
    return [differences(Path(folder, str(i)), planted) for i, planted in enumerate(PLANTED)]


PLANTED = [None, "an iterator draws from the global generator", "the epoch of the sampler begins again"]


@pytest.mark.syllabus("GT-03")
def test_a_run_that_is_resumed_has_the_losses_and_weights_of_one_that_never_stopped(forks, tmp_path):
    """In a process of its own, whose random numbers no thread of another test draws."""
    assert forks(each_difference, tmp_path) == [[True, True], [False, False], [False, False]]


def test_a_new_run_has_nothing_to_resume_and_its_optimizer_stays_as_it_is(tmp_path):
    model, optimizer = small()
    checkpoints = Checkpoints(tmp_path / "new", fingerprint={})
    assert checkpoints.resume(lambda: training_state(model, optimizer)) is None
    assert not optimizer.state and checkpoints.latest() is None and checkpoints.best() is None
    checkpoints.close()


def test_every_kind_of_value_comes_back(tmp_path):
    model, optimizer = small()
    step(model, optimizer)
    average = {name: value + 1 for name, value in model.state_dict().items()}
    more = dict(position=2**40, none=None, empty={}, nested={"a": [1, 2.5, {}], "b": (3,)}, text="…", inf=float("inf"))
    checkpoints = Checkpoints(tmp_path, fingerprint={})
    checkpoints.save(1, training_state(model, optimizer, average=average, **more))
    expected = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    model, optimizer = small(seed=1)
    optimizer.param_groups[0]["lr"] = 5.0
    zeros = {name: torch.zeros_like(value) for name, value in average.items()}
    number, state = checkpoints.resume(lambda: training_state(model, optimizer, average=zeros))
    restored = restore_training_state(model, optimizer, state)
    torch.testing.assert_close((model.state_dict(), optimizer.state_dict()), expected, rtol=0, atol=0)
    torch.testing.assert_close(restored.pop("average"), average, rtol=0, atol=0)
    assert restored == more and number == 1
    checkpoints.close()


def tied_and_frozen():
    torch.manual_seed(0)
    sizes = dict(d_model=12, n_layers=2, n_heads=3, d_ff=20, n_vocab=11, position="learned", n_ctx=7)
    model = Transformer(ModelConfig(**sizes, tie_embeddings=True))
    for parameter in model.blocks[0].parameters() if hasattr(model, "blocks") else list(model.parameters())[2:4]:
        parameter.requires_grad_(False)
    return model, torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)


@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "compiled"])
def test_tied_and_frozen_weights_and_the_names_of_the_bare_model(tmp_path, wrapped):
    model, optimizer = tied_and_frozen()
    before = copy.deepcopy(model)
    ids = torch.tensor([[1, 4, 2, 8]])
    F.cross_entropy(model(ids)[0], ids[0]).backward()
    optimizer.step()
    trained = torch.compile(model) if wrapped else model
    checkpoints = Checkpoints(tmp_path, fingerprint={})
    checkpoints.save(1, training_state(trained, optimizer))
    other, optimizer = tied_and_frozen()
    assert equal(other, before) and not equal(model, before)
    _, state = checkpoints.resume(lambda: training_state(other, optimizer))
    restore_training_state(other, optimizer, state)
    assert equal(other, model) and set(state["model"]) == set(before.state_dict()) and n_done(optimizer) == {1}
    checkpoints.close()


# --- Saving ---


@pytest.mark.parametrize("planted", [None, "the tensors are not copied", "a save does not wait for the last"])
def test_a_checkpoint_holds_what_was_saved_while_the_run_goes_on(tmp_path, monkeypatch, planted):
    write = module._Writer.write_data

    def slowly(*args):
        time.sleep(0.3)
        return write(*args)

    monkeypatch.setattr(module._Writer, "write_data", slowly)
    model, optimizer = small()
    checkpoints = Checkpoints(tmp_path, fingerprint={})
    if planted == "the tensors are not copied":
        monkeypatch.setattr(checkpoints._stager, "stage", lambda state: state)
    if planted == "a save does not wait for the last":
        monkeypatch.setattr(checkpoints, "wait", lambda: None)
    expected = {}
    for number in (1, 2, 3):
        step(model, optimizer)
        expected[number] = copy.deepcopy(model)
        checkpoints.save(number, training_state(model, optimizer))
    step(model, optimizer)
    monkeypatch.undo()
    time.sleep(0.5 if planted else 0)
    checkpoints.wait()
    found = {}
    for number in (1, 2, 3):
        state = training_state(*small(seed=1))
        try:
            checkpoints.load(number, state)
        except ValueError:
            continue
        weights = [state["model"][name] for name in model.state_dict()]
        found[number] = [torch.equal(a, b) for a, b in zip(weights, expected[number].parameters(), strict=True)]
    assert all(all(found.get(number, [False])) for number in (1, 2, 3)) == (planted is None)
    checkpoints.close()


def test_the_last_and_the_best_are_kept(tmp_path):
    model, optimizer = small()
    losses = {1: 0.5, 2: 0.2, 3: 0.4, 4: float("nan"), 5: None, 6: 0.3}
    checkpoints = Checkpoints(tmp_path, keep_last=2, asynchronous=False, fingerprint={})
    kept = {}
    for number, loss in losses.items():
        checkpoints.save(number, training_state(model, optimizer), loss)
        kept[number] = checkpoints.steps()
    assert kept == {1: [1], 2: [1, 2], 3: [2, 3], 4: [2, 3, 4], 5: [2, 4, 5], 6: [2, 5, 6]}
    assert checkpoints.best() == 2 and checkpoints.latest() == 6
    assert not list(tmp_path.glob("*.partial"))
    checkpoints.close()
    checkpoints = Checkpoints(tmp_path, keep_last=1, keep_best=False, fingerprint={})
    checkpoints.save(7, training_state(model, optimizer), 0.1)
    checkpoints.wait()
    assert checkpoints.steps() == [7]
    checkpoints.close()
    with pytest.raises(ValueError, match="keep_last=0 must be at least 1"):
        Checkpoints(tmp_path, keep_last=0, fingerprint={})


def test_a_step_is_saved_once(tmp_path, monkeypatch):
    checkpoints, model, optimizer = saved(tmp_path, 1, 2)
    before = (tmp_path / "step-00000002").stat().st_ino
    checkpoints.save(2, training_state(model, optimizer))
    checkpoints.wait()
    assert (tmp_path / "step-00000002").stat().st_ino == before
    checkpoints.close()


def test_a_full_disk_costs_that_checkpoint_alone(tmp_path):
    checkpoints, model, optimizer = saved(tmp_path, 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
    try:
        checkpoints.save(2, training_state(model, optimizer))
        sentence = "checkpoint of step 2 could not be written .File too large.; the last good one is of step 1$"
        with pytest.raises(OSError, match=sentence):
            checkpoints.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert checkpoints.steps() == [1] and not list(tmp_path.glob("*.partial"))
    checkpoints.save(2, training_state(model, optimizer))
    checkpoints.close()
    assert checkpoints.steps() == [1, 2]


# --- What may have happened to a folder ---


def altered(name, change):
    def damage(folder):
        content = bytearray((folder / name).read_bytes())
        change(content)
        (folder / name).write_bytes(content)

    return damage


def flip_a_bit(content):
    content[len(content) // 2] ^= 1


def cut(content):
    del content[-100:]


NO_FILES, NOTHING = '{"format": 1, "fingerprint": {}, "files": []}', '{"format": 1}'

DAMAGES = {
    "a shard is truncated": (altered("__0_0.distcp", cut), r"__0_0.distcp has [\d,]+ bytes, and [\d,]+ were written"),
    "a shard is missing": (lambda folder: (folder / "__0_0.distcp").unlink(), "__0_0.distcp is missing"),
    "a bit of a shard has changed": (altered("__0_0.distcp", flip_a_bit), "the content of __0_0.distcp has changed"),
    "the metadata are truncated": (altered(".metadata", cut), r".metadata has [\d,]+ bytes, and [\d,]+ were written"),
    "the metadata are not readable": (altered(".metadata", bytearray.reverse), "its files cannot be read .*"),
    "checkpoint.json is truncated": (altered("checkpoint.json", cut), r"checkpoint.json, line \d+"),
    "checkpoint.json has no files": (lambda folder: (folder / "checkpoint.json").write_text(NO_FILES), "has no files"),
    "checkpoint.json is empty": (lambda folder: (folder / "checkpoint.json").write_text(NOTHING), "has no fingerprint"),
    "checkpoint.json is missing": (lambda folder: (folder / "checkpoint.json").unlink(), "checkpoint.json is missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_taken(tmp_path, damage):
    checkpoints, model, optimizer = saved(tmp_path, 1, 2)
    break_it, sentence = DAMAGES[damage]
    break_it(tmp_path / "step-00000002")
    with pytest.raises(DamagedCheckpoint, match=f"^step-00000002 is damaged: .*({sentence}).*$"):
        checkpoints.load(2, training_state(model, optimizer))
    with pytest.warns(UserWarning, match=f"({sentence}).*; it is set aside, and the run goes on from step 1"):
        number, state = checkpoints.resume(lambda: training_state(model, optimizer))
    assert number == 1 and restore_training_state(model, optimizer, state) == {"number": 1} and n_done(optimizer) == {1}
    assert checkpoints.steps() == [1] and (tmp_path / "step-00000002.damaged").is_dir()
    checkpoints.save(2, training_state(model, optimizer))
    checkpoints.wait()
    assert checkpoints.steps() == [1, 2]
    break_it(tmp_path / "step-00000002")  # once more
    with pytest.warns(UserWarning, match="set aside"):
        assert checkpoints.resume(lambda: training_state(model, optimizer))[0] == 1
    assert checkpoints.steps() == [1]
    checkpoints.close()


def test_nothing_is_begun_anew_where_all_checkpoints_are_damaged(tmp_path):
    checkpoints, model, optimizer = saved(tmp_path, 1, 2)
    for number in (1, 2):
        (tmp_path / f"step-0000000{number}" / ".metadata").unlink()
    sentence = "all 2 checkpoints in .* are damaged; step-00000002 is damaged: .metadata is missing$"
    for _ in range(2):  # also not at the second try
        with pytest.raises(ValueError, match=sentence):
            checkpoints.resume(lambda: training_state(model, optimizer))
    with pytest.raises(ValueError, match="all checkpoints up to step 1 in .* are damaged"):
        checkpoints.resume(lambda: training_state(model, optimizer), up_to=1)
    assert checkpoints.steps() == [1, 2]
    checkpoints.close()


def test_a_checkpoint_of_another_config_or_model_is_refused(tmp_path):
    fingerprint = {"model": {"d_model": 6, "targets": ("a", "b")}, "seed": 0}
    checkpoints, model, optimizer = saved(tmp_path, 1, fingerprint=fingerprint)
    checkpoints.load(1, training_state(model, optimizer))
    for other, sentence in {
        "step-00000001 was made with model.d_model=6, and this run has model.d_model=8": fingerprint
        | {"model": {"d_model": 8, "targets": ["a", "b"]}},
        "step-00000001 was made with seed=0, and this run has seed='not set'": {"model": fingerprint["model"]},
        "step-00000001 was made with new='not set', and this run has new=True": fingerprint | {"new": True},
    }.items():
        checkpoints.fingerprint = module._flat(sentence)
        with pytest.raises(ValueError, match=f"^{other}$"):
            checkpoints.resume(lambda: training_state(model, optimizer))
    checkpoints.fingerprint = module._flat(fingerprint)
    wide = nn.Sequential(nn.Embedding(11, 7), nn.Dropout(0.2), nn.Linear(7, 7), nn.Linear(7, 11))
    with pytest.raises(
        ValueError, match="^step-00000001 does not fit this model or optimizer: Size mismatch .*0.weight$"
    ):
        checkpoints.load(1, training_state(wide, torch.optim.AdamW(wide.parameters())))
    deep = nn.Sequential(*model, nn.Linear(11, 11))
    with pytest.raises(ValueError, match="^step-00000001 does not fit .*: Missing key .*4.weight$"):
        checkpoints.load(1, training_state(deep, torch.optim.AdamW(deep.parameters())))
    with pytest.raises(ValueError, match="has no checkpoint of step 3; there are .1."):
        checkpoints.load(3, training_state(model, optimizer))
    assert checkpoints.steps() == [1]
    (about := tmp_path / "step-00000001" / "checkpoint.json").write_text(about_format(about, 2))
    with pytest.raises(ValueError, match="step-00000001 has format 2; this version reads format 1"):
        checkpoints.load(1, training_state(model, optimizer))
    checkpoints.close()


def about_format(path, number):
    return json.dumps(json.loads(path.read_text()) | {"format": number})


def test_a_rewound_run_leaves_no_later_checkpoint_and_saves_its_steps_again(tmp_path):
    checkpoints, model, optimizer = saved(tmp_path, 1, 2, 3, keep_last=5)
    number, state = checkpoints.resume(lambda: training_state(model, optimizer), up_to=2)
    restore_training_state(model, optimizer, state)
    assert number == 2 and checkpoints.steps() == [1, 2] and n_done(optimizer) == {2}
    checkpoints.save(2, training_state(model, optimizer, number="after the rewind"))  # in the stead of the first
    step(model, optimizer)
    checkpoints.save(3, training_state(model, optimizer))
    checkpoints.wait()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", *(f"step-0000000{n}" for n in (1, 2, 3))]
    _, state = checkpoints.resume(lambda: training_state(model, optimizer), up_to=2)
    assert restore_training_state(model, optimizer, state) == {"number": "after the rewind"}
    with pytest.raises(ValueError, match="has no checkpoint up to step 0; there are .1, 2."):
        checkpoints.resume(lambda: training_state(model, optimizer), up_to=0)
    checkpoints.close()


def beside_another_run(folder):
    """What is said while another process uses the folder, and what is left after that one was killed."""
    folder, (ready, begin) = Path(folder), os.pipe()
    if (other := os.fork()) == 0:
        checkpoints = Checkpoints(folder, fingerprint={})
        os.write(begin, b"1")
        signal.pause()
    try:
        os.read(ready, 1)
        (folder / "step-00000005.0123abcd.partial").mkdir()
        module.LOCK_TIMEOUT_S, naps, sleep = 0.3, [], time.sleep
        module.time.sleep = lambda seconds: naps.append(sleep(seconds))  # it tries again until the limit
        with pytest.raises(OSError, match=rf"is in use by process {other} on .*; wait for it to end, or stop it"):
            Checkpoints(folder, fingerprint={})
        assert list(folder.glob("*.partial")) and len(naps) > 1
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)
    module.LOCK_TIMEOUT_S = 20.0
    checkpoints = Checkpoints(folder, fingerprint={})
    assert not list(folder.glob("*.partial")) and checkpoints.resume(dict) is None
    checkpoints.close()
    return "done"


def test_a_folder_has_one_run_at_a_time_and_drafts_of_a_killed_one_are_removed(forks, tmp_path):
    assert forks(beside_another_run, tmp_path) == "done"


# --- Kills ---

FILE_EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.listdir", "os.scandir", "shutil.rmtree"}


def save_under_kills(folder):
    folder = Path(folder)
    n_survived = n_kills_survived(folder / "right")
    write = module._Writer.write_data

    def write_early(self, plan, planner):
        os.replace(self.draft, self.folder)
        self.path = self.folder
        result = write(self, plan, planner)
        os.replace(self.folder, self.draft)
        self.path = self.draft
        return result

    module._Writer.write_data = write_early  # planted: it is renamed before the shards are written
    try:
        n_kills_survived(folder / "wrong")
    except UserWarning as warning:
        return n_survived, str(warning)


def n_kills_survived(folder):
    """Save the second checkpoint in processes that are killed before their first, second, … file operation."""
    checkpoints, model, optimizer = saved(folder, 1, asynchronous=False, keep_last=1)
    checkpoints.close()
    backup = shutil.copytree(folder / "step-00000001", f"{folder}.1")
    before = copy.deepcopy(model)
    step(model, optimizer)
    n_events, killed = 0, True
    while killed:
        n_events += 1
        child = os.fork()
        if child == 0:
            left = n_events

            def hook(event, arguments):
                nonlocal left
                if event in FILE_EVENTS and str(folder) in str(arguments[0]):
                    left -= 1
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(hook)
            checkpoints = Checkpoints(folder, keep_last=1, fingerprint={}, asynchronous=False)
            checkpoints.save(2, training_state(model, optimizer, number=2))
            checkpoints.close()
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, -signal.SIGKILL)
        killed = status != 0
        checkpoints = Checkpoints(folder, keep_last=1, fingerprint={}, asynchronous=False)
        resumed = small(seed=1)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*is damaged")
            number, state = checkpoints.resume(lambda: training_state(*resumed))  # noqa: B023
        assert restore_training_state(*resumed, state) == {"number": number}
        assert equal(resumed[0], {1: before, 2: model}[number])
        assert not list(folder.glob("*.partial"))
        if number == 2 and killed:  # back to the beginning
            checkpoints._remove(2)
            shutil.copytree(backup, folder / "step-00000001", dirs_exist_ok=True)
        checkpoints.close()
    assert number == 2
    return n_events - 1


@pytest.mark.syllabus("GT-03")
def test_a_process_killed_between_any_two_file_operations_leaves_a_whole_checkpoint(forks, tmp_path):
    n_survived, planted = forks(save_under_kills, tmp_path)
    assert n_survived > 15
    assert planted.startswith("step-00000002 is damaged: ")


# --- Ranks ---


def test_runs_of_any_kind_and_number_of_ranks_read_each_others_checkpoints(forks, tmp_path):
    """Plain, in DDP and sharded; on one, two and three ranks."""
    folder = tmp_path / "fsdp"
    losses = forks(rank_run, folder, "fsdp", 0, n_ranks=2)
    assert losses[0][0] == losses[1][0] and losses[0][1] != losses[1][1], "random numbers of each rank"
    assert forks(rank_run, folder, "fsdp", 3, n_ranks=2) == losses
    for kind, n_ranks in (("fsdp", 3), ("ddp", 2), ("plain", 1)):
        others = forks(rank_run, folder, kind, 3, n_ranks=n_ranks)
        np.testing.assert_allclose([numbers[0] for numbers in others], [losses[0][0]] * n_ranks, rtol=1e-5)
        assert [numbers[1] for numbers in others][:2] == [numbers[1] for numbers in losses][:n_ranks]
    forks(rank_run, tmp_path / "plain", "plain", 0, n_ranks=1)
    again = forks(rank_run, tmp_path / "plain", "fsdp", 3, n_ranks=2)
    assert again[0][0] == pytest.approx(losses[0][0], rel=1e-5)
    full = "the checkpoint of step 4 could not be written (File too large on rank 1); the last good one is of step 3"
    assert forks(rank_run, folder, "fsdp", "full", n_ranks=2) == [full] * 2
    (folder / "step-00000003" / "__1_0.distcp").unlink()
    damaged = "step-00000003 is damaged: __1_0.distcp is missing"
    assert forks(rank_run, folder, "fsdp", "damaged", n_ranks=2) == [damaged] * 2


def rank_run(folder, kind, done):
    """Three steps, a checkpoint and three more; or the latter alone, from a checkpoint. Returns losses and a draw."""
    rank = torch.distributed.get_rank()
    torch.manual_seed(100 + rank)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(i + 10 * bool(done))))
    if kind == "fsdp":
        for part in (model[0], model[2], model):
            fully_shard(part)
    elif kind == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def steps(*numbers):
        for number in numbers:
            generator = torch.Generator().manual_seed(number)
            loss = model(torch.randn(6, 5, generator=generator)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()

    checkpoints = Checkpoints(folder, fingerprint={})
    if done in ("full", "damaged"):
        list(steps(1, 2, 3))
    if done == "full":
        if rank == 1:
            resource.setrlimit(resource.RLIMIT_FSIZE, (500, resource.RLIM_INFINITY))
        checkpoints.save(4, training_state(model, optimizer))
    try:
        if done == "full":
            checkpoints.wait()
        if done == "damaged":
            checkpoints.load(3, training_state(model, optimizer, step=0))
    except (OSError, DamagedCheckpoint) as error:
        return str(error)
    if done:
        number, state = checkpoints.resume(lambda: training_state(model, optimizer))
        assert restore_training_state(model, optimizer, state) == {"step": 3} and number == 3
    else:
        list(steps(1, 2, 3))
        checkpoints.save(3, training_state(model, optimizer, step=3))
    found = list(steps(4, 5, 6)), torch.rand(1).item()
    checkpoints.close()
    return found
