"""The position experiment: its models differ in the scheme alone, its tables are whole, a command repeats it."""

import csv

import pytest
import regex
import torch
from einops import rearrange

from llm_anatomy.__main__ import main
from llm_anatomy.data import table
from llm_anatomy.evaluation.paired import paired_difference
from llm_anatomy.evaluation.perplexity import token_losses
from llm_anatomy.layers.positions.rotary import HalfSplitRotary
from llm_anatomy.models.transformer import Transformer
from llm_anatomy.training.experiments import positions
from llm_anatomy.training.experiments.positions import (
    SCHEMES,
    LinearSelfAttention,
    corpus,
    held_out_windows,
    losses_by_length,
    losses_by_position,
    mean_attention_weights,
    results,
    run,
    small_model,
)


@pytest.fixture
def brief(monkeypatch):
    """Few and short windows, so that a test takes a second."""
    monkeypatch.setattr(positions, "N_TEST_STORIES", 3)
    monkeypatch.setattr(positions, "N_VALIDATION_STORIES", 2)
    monkeypatch.setattr(positions, "LENGTHS", (64, 96))
    corpus.cache_clear()
    yield
    corpus.cache_clear()


def test_the_corpus_is_two_texts_of_known_words():
    words, training, held_out = corpus()
    assert torch.equal(training.unique(), torch.arange(len(words))) and held_out.max() < len(words)
    counts = training.bincount()
    assert (counts.diff() <= 0).all()
    text = " ".join(words[i] for i in training[:11])
    assert text == "Everybody knew Tom , a brave boy who lived in a"
    assert not torch.equal(training[: len(held_out)], held_out)
    assert (training == words.index("\n\n")).sum() == 1000 and (held_out == words.index("\n\n")).sum() == 320


def test_a_window_lies_inside_one_story_behind_its_opening():
    words, _, held_out = corpus()
    stories = " ".join(words[i] for i in held_out).split(" \n\n ")
    for validation, of_its_own in ((True, stories[:64]), (False, stories[64:])):
        windows = held_out_windows(512, validation=validation)
        assert windows.shape == (len(of_its_own), 513)
        starts = []
        openings = [
            " ".join(regex.findall(r"\w+|[^\w\s]", t.split("\n")[0])) for t in positions.stories(1, 320, n_plots=8)
        ]
        of_these = openings[:64] if validation else openings[64:]
        for window, story, opening in zip(windows, of_its_own, of_these, strict=True):
            text = " ".join(words[i] for i in window)
            assert text in story and story.startswith(opening) and story.index(text) > len(opening)
            starts.append(story[: story.index(text)].count(" "))
        assert min(starts) >= 64 and max(starts) > 250  # tokens of the story before the window
        assert torch.equal(held_out_windows(7, validation=validation), windows[:, -8:])


@pytest.mark.parametrize("n_tokens", [0, 513])
def test_a_length_without_windows_is_refused(n_tokens):
    with pytest.raises(ValueError, match=f"n_tokens={n_tokens} must be from 1 to 512"):
        held_out_windows(n_tokens)


@pytest.mark.syllabus("IITD-17", "CMU-33")
@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_does_not_concern_the_scheme_starts_from_the_same_numbers(scheme):
    plain, model = dict(small_model("none", seed=3).named_parameters()), small_model(scheme, seed=3)
    for name, weight in model.named_parameters():
        if "position" not in name:
            assert torch.equal(weight, plain[name]), name
    other = small_model(scheme, seed=4)
    assert not torch.equal(model.embedding.weight, other.embedding.weight)
    assert model.embedding.weight.std().item() == pytest.approx(1 / 8, rel=0.05)


def test_making_a_model_leaves_the_global_random_numbers_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    small_model("learned")
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.syllabus("IITD-31", "GT-52")
@pytest.mark.parametrize("position", [None, HalfSplitRotary(4)])
def test_linear_self_attention_is_the_sum_over_the_past(position):
    torch.manual_seed(0)
    layer, x = LinearSelfAttention(12, 3, position).double(), torch.randn(2, 5, 12, dtype=torch.float64)
    query, key, value = (
        rearrange(linear(x), "b t (h d) -> b h t d", h=3) for linear in (layer.w_query, layer.w_key, layer.w_value)
    )
    query, key = torch.nn.functional.elu(query) + 1, torch.nn.functional.elu(key) + 1
    positions = torch.arange(5)[None]
    turn = (lambda a: position.rotate(a, positions)) if position else (lambda a: a)
    read = torch.zeros_like(value)
    for m in range(5):
        for n in range(m + 1):
            read[:, :, m] += (turn(query)[:, :, m] * turn(key)[:, :, n]).sum(-1, keepdim=True) * value[:, :, n]
        read[:, :, m] /= (query[:, :, m, None] * key[:, :, : m + 1]).sum((-1, -2))[..., None]
    expected = rearrange(read, "b h t d -> b t (h d)") @ layer.w_output.weight.T
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.syllabus("IITD-31")
def test_the_linear_models_read_with_linear_attention_turned_or_not():
    for scheme, turned in (("linear", False), ("linear_rope", True)):
        layers = [block.attention for block in small_model(scheme).stack.blocks]
        assert all(type(layer) is LinearSelfAttention and bool(layer.rotation) == turned for layer in layers)


def test_training_lowers_the_loss_and_can_be_repeated(brief):
    model, curve = run("rope", seed=1, n_steps=12)
    assert [step for step, _ in curve] == list(range(1, 13)) and curve[-1][1] < curve[0][1] - 0.1
    assert run("rope", seed=1, n_steps=12)[1] == curve != run("rope", seed=2, n_steps=12)[1]


@pytest.mark.syllabus("IITD-17", "GT-52")
def test_every_length_is_judged_by_the_same_last_tokens_with_32_before_each(brief):
    seen = []

    class Spy(Transformer):
        def forward(self, ids):
            seen.append(ids)
            return super().forward(ids)

    model = small_model("rope")
    model.__class__ = Spy
    found = list(losses_by_length(model, "rope"))
    short, long = (ids for ids in seen if isinstance(ids, torch.Tensor))
    assert torch.equal(short, long[:, -64:])
    assert [row[:2] for row in found] == [("", 64), ("", 96), ("linear", 96), ("ntk", 96), ("yarn", 96)]
    assert len({loss for _, _, loss in found}) == 5  # scaling changes something
    for n_tokens, (_, _, loss) in zip((64, 96), found[:2], strict=True):
        each = token_losses(model, held_out_windows(n_tokens))
        assert loss == pytest.approx(each[:, n_tokens - 32 :].mean().item(), abs=1e-6)


@pytest.mark.syllabus("IITD-17", "GT-52")
def test_a_loss_by_position_is_the_mean_of_sixteen_positions_in_a_row(brief):
    model = small_model("alibi")
    each = token_losses(model, held_out_windows(96))
    expected = [each[:, i : i + 16].mean().item() for i in range(0, 96, 16)]
    assert losses_by_position(model).tolist() == pytest.approx(expected, abs=1e-6)
    assert len(losses_by_position(small_model("learned"))) == 4


@pytest.mark.syllabus("CMU-24")
def test_the_mean_weights_are_those_of_the_distances(brief):
    model = small_model("alibi")
    found = mean_attention_weights(model, n_distances=5)
    _, records = model(held_out_windows(64)[:, :-1], return_records=True)
    weights = records[1].attention_weights[:, 2]  # the second layer's third head
    expected = sum(weights[:, i, i - 3] for i in range(4, 64)).mean() / 60
    assert found[1, 2, 3].item() == pytest.approx(expected.item(), abs=1e-7)


def read(folder):
    tables = {}
    for path in folder.iterdir():
        with path.open(newline="") as lines:
            tables[path.stem] = list(csv.DictReader(lines))
    return tables


def test_the_command_writes_the_tables(brief, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(positions, "MAX_LRS", (0.01,))
    folder, n_threads = tmp_path / "new" / "folder", torch.get_num_threads()
    assert main(["experiment", "positions", "--seeds", "7", "--steps", "1", "--out", str(folder)]) == 0
    assert capsys.readouterr().out == f"The tables are in {folder}.\n"
    assert torch.get_num_threads() == n_threads
    tables = read(folder)
    assert {row["scheme"] for row in tables["position_curves"]} == set(SCHEMES)
    assert [row["n_tokens"] for row in tables["position_losses"] if row["scheme"] == "learned"] == ["64"]
    assert [row["position"] for row in tables["losses_by_position"][:7]] == ["0", "16", "32", "48", "64", "80", "0"]
    assert len(tables["position_heads"]) == 8 * 2 * 4 * 32  # all but linear attention, which has no weights
    assert len(tables["learned_positions"]) == 64 and tables["learned_positions"][5]["5"] == "1.00"
    assert len(tables["t5_biases"]) == 4 * 64
    assert len(tables["position_tuning"]) == len(SCHEMES)
    assert [row["n_tokens"] for row in tables["position_control"]] == ["64", "96"]
    settings = {row["field"]: row["value"] for row in tables["position_experiment"]}
    assert settings["seeds"] == "7" and settings["n_steps"] == "1" and settings["n_vocab"] == str(len(corpus()[0]))


@pytest.fixture
def recorded(monkeypatch):
    """Training is replaced: what is trained is recorded, and the loss depends on scheme and learning rate."""
    asked = []
    best = dict(zip(SCHEMES, [1e-2, 5e-3, 4e-2, *[2e-2] * 7], strict=True))

    def run(scheme, seed, n_steps, max_lr, *n_tokens):
        asked.append((scheme, seed, max_lr, *n_tokens))
        if (scheme, seed, max_lr) == ("rope", positions.TUNING_SEED, 4e-2):
            raise FloatingPointError("the loss of step 9 is nan")
        return small_model(scheme), [(1, 9.0), (2, 1.0 + abs(max_lr - best[scheme]))]

    monkeypatch.setattr(positions, "run", run)
    return asked, best


def test_each_scheme_is_trained_with_the_learning_rate_that_did_best_on_the_seed_for_tuning(brief, recorded, tmp_path):
    asked, best = recorded
    positions.experiment(tmp_path, seeds=[0, 1], n_steps=2)
    n_tuned = len(SCHEMES) * len(positions.MAX_LRS)
    assert set(asked[:n_tuned]) == {(s, positions.TUNING_SEED, lr) for s in SCHEMES for lr in positions.MAX_LRS}
    n_trained = n_tuned + 2 * len(SCHEMES)
    assert asked[n_tuned:n_trained] == [(scheme, seed, best[scheme]) for seed in (0, 1) for scheme in SCHEMES]
    assert asked[n_trained:] == [("transformer_xl", seed, best["transformer_xl"], 256) for seed in (0, 1)]
    tuned = {(row["scheme"], row["max_lr"]): row["loss"] for row in read(tmp_path)["position_tuning"]}
    assert tuned["rope", "0.04"] == "inf" and tuned["none", "0.01"] == "1.0000"


def test_without_a_worker_nothing_is_run(tmp_path, capsys):
    assert main(["experiment", "positions", "--workers", "0", "--out", str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err == "n_workers=0 must be at least 1\n" and not (tmp_path / "new").exists()


def by_position(scheme):
    """Mean loss over the seeds, at 16 positions in a row each."""
    return results("losses_by_position", scheme=scheme).view(5, -1).mean(0)


@pytest.mark.syllabus("IITD-17", "GT-52")
def test_the_stored_losses_by_position_are_high_without_context_and_beyond_training_as_the_chapters_say():
    for scheme in SCHEMES:
        losses = by_position(scheme)
        assert losses[0] > losses[1] + 0.2, scheme  # hardly any context
    for scheme, jump in {"sinusoidal": 1.0, "rope": 0.15, "none": 0.5, "linear_rope": 0.9}.items():
        losses = by_position(scheme)
        assert losses[6] > losses[2] + jump and losses[:4].max() < 1.3, scheme
    assert by_position("none")[3] > by_position("none")[1] + 0.1  # the loss rises before the trained length ends
    reference = by_position("transformer_xl")
    assert 0.05 < (by_position("t5") - reference)[-4:].mean() < 0.07
    assert 0.005 < (by_position("alibi") - reference)[4:].mean() < 0.015
    assert (by_position("shaw") - reference)[1:8].max() < 0 < (by_position("shaw") - reference)[-4:].min()


@pytest.mark.syllabus("IITD-17", "GT-52")
def test_no_stored_loss_falls_with_a_longer_window():
    for scheme in set(SCHEMES) - {"learned"}:
        at = {n: results("position_losses", scheme=scheme, n_tokens=n, scaling=None).tolist() for n in (64, 128, 512)}
        assert paired_difference(at[512], at[64]).low > 0, scheme
        assert paired_difference(at[128], at[64]).mean > 0, scheme
    control = {n: [row["loss"] for row in table("position_control") if row["n_tokens"] == n] for n in (64, 256)}
    assert -0.002 < paired_difference(control[256], control[64]).mean < 0  # there is hardly anything to gain


def test_each_stored_learning_rate_was_chosen_inside_the_grid():
    for scheme in SCHEMES:
        rows = [row for row in table("position_tuning") if row["scheme"] == scheme]
        assert [row["max_lr"] for row in rows] == list(positions.MAX_LRS)
        losses = [row["loss"] for row in rows]
        assert 0 < losses.index(min(losses)) < len(losses) - 1, scheme


def test_results_are_the_losses_of_the_rows_that_are_wanted():
    wanted = [row["loss"] for row in table("position_losses") if row["scheme"] == "rope" and row["n_tokens"] == 128]
    assert results("position_losses", scheme="rope", n_tokens=128).tolist() == pytest.approx(wanted)
    of_ntk = results("position_losses", scheme="rope", n_tokens=128, scaling="ntk")
    assert len(wanted) == 4 * len(of_ntk) == 4 * len(results("position_losses", scheme="t5", n_tokens=64))
    with pytest.raises(ValueError, match="no row of position_losses has {'scheme': 'rotary'}"):
        results("position_losses", scheme="rotary")


def test_an_unknown_scheme_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match="scheme='rotary' must be one of none, sinusoidal, learned"):
        small_model("rotary")
