"""The Funnel Transformer: pairs against a loop, and what the decoder sees of a source of any length and padding."""

import copy
from functools import cache

import pytest
import torch
from randomness import randn

from llm_anatomy.models.modifications import MODIFICATIONS
from llm_anatomy.models.modifications.base import T5_BASE, baseline, target_log_probs
from llm_anatomy.models.modifications.funnel import FunnelEncoder, mean_of_pairs, positions_of_pairs

N_VOCAB, BATCH, SOURCE, TOKENS = 60, 2, 11, 9
ROW = MODIFICATIONS["funnel_transformer"]


def ids(*shape, seed=0):
    return torch.randint(0, N_VOCAB, shape, generator=torch.Generator().manual_seed(seed))


@cache
def model(**sizes):
    return ROW.build(baseline(N_VOCAB, **sizes)).eval()


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("sides", [(0, 0), (0, 3), (3, 0), (1, 2)])
@pytest.mark.parametrize("n_tokens", [1, 2, 7, 8])
def test_pairs_are_those_of_a_loop_on_whichever_side_padding_is(n_tokens, sides):
    tokens = randn(BATCH, n_tokens, 5)
    left, right = (randn(BATCH, n, 5, seed=1) for n in sides)
    positions = torch.tensor([[-1] * sides[0] + list(range(n_tokens)) + [-1] * sides[1]])
    expected = torch.stack([tokens[:, i : i + 2].mean(1) for i in range(0, n_tokens, 2)], dim=1)
    pooled = mean_of_pairs(torch.cat([left, tokens, right], dim=1), positions)
    n_pairs = expected.shape[1]
    torch.testing.assert_close(pooled[:, :n_pairs], expected)
    assert not pooled[:, n_pairs:].any()
    rest = pooled.shape[1] - n_pairs
    assert positions_of_pairs(positions).tolist() == [list(range(n_pairs)) + [-1] * rest]


@pytest.mark.parametrize("n_source", [1, 2, 3, 4, 5, 12])
def test_the_decoder_attends_to_a_quarter_of_the_source(n_source):
    funnel, target = model(), ids(BATCH, TOKENS)
    encoded = funnel.encode(ids(BATCH, n_source))
    quarter = -(-n_source // 4)
    assert encoded.hidden_states.shape[1] == quarter and encoded.key_positions.tolist() == [list(range(quarter))]
    _, records = funnel(target, source=encoded, return_records=True)
    assert records[0].cross_attention_weights.shape[-1] == quarter


def test_self_attention_has_the_lengths_of_its_group_and_offsets_of_the_pairs(monkeypatch):
    funnel = model()
    context_lengths = []
    position = funnel.encoder.blocks[0].attention.position
    bias = type(position).bias

    def watched(query, key, context):
        context_lengths.append(context.offsets.tolist())
        return bias(position, query, key, context)

    monkeypatch.setattr(position, "bias", watched)
    funnel.encode(ids(1, 12))
    assert [len(offsets[0]) for offsets in context_lengths] == [12, 12, 12, 6, 6, 3]
    assert context_lengths[-1] == [[[0, 1, 2], [-1, 0, 1], [-2, -1, 0]]]


def by_hand(funnel, source):
    """The encoder on one unpadded source, from the parts of its blocks, with a loop over pairs."""
    x, group = funnel.embedding(source), len(funnel.encoder.blocks) // 3
    for layer, block in enumerate(funnel.encoder.blocks):
        x = block.attention_residual(x, lambda y, block=block: block.attention(y))
        if layer in (group, 2 * group):
            x = torch.stack([x[:, i : i + 2].mean(1) for i in range(0, x.shape[1], 2)], dim=1)
        x = block.feedforward_residual(x, block.feedforward)
    return funnel.encoder.norm(x)


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("n_source", [4, 11, 16])
def test_the_encoder_is_its_parts_with_pairs_made_in_a_loop(n_source):
    funnel, source = model(), ids(BATCH, n_source)
    torch.testing.assert_close(funnel.encode(source).hidden_states, by_hand(funnel, source))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("lengths", [(11, 7), (9, 2), (8, 8), (1, 11)])
def test_padding_of_the_source_does_not_matter(side, lengths):
    funnel, target = model(), ids(2, TOKENS)
    source, mask = ids(2, 14, seed=1), torch.zeros(2, 14, dtype=torch.bool)
    for row, length in enumerate(lengths):
        mask[row, slice(0, length) if side == "right" else slice(14 - length, 14)] = True
    logits = funnel(target, source=funnel.encode(source, mask))
    for row in range(2):
        alone = funnel(target[[row]], source=source[[row]][mask[[row]]][None])
        torch.testing.assert_close(logits[[row]], alone, rtol=1e-4, atol=1e-5)


@torch.inference_mode()
def test_earlier_logits_do_not_depend_on_later_tokens_and_a_cache_gives_the_same():
    funnel, target = model(), ids(BATCH, TOKENS)
    mask = torch.arange(SOURCE).expand(BATCH, -1) < torch.tensor([[SOURCE], [SOURCE - 4]])
    source = funnel.encode(ids(BATCH, SOURCE, seed=1), mask)
    logits = funnel(target, source=source)
    changed = target.clone()
    changed[:, -1] = (changed[:, -1] + 1) % N_VOCAB
    torch.testing.assert_close(funnel(changed, source=source)[:, :-1], logits[:, :-1])
    cache = funnel.new_cache(BATCH, TOKENS, n_source=SOURCE)
    steps = [funnel(target[:, [t]], source=source, cache=cache) for t in range(TOKENS)]
    torch.testing.assert_close(torch.cat(steps, dim=1), logits, rtol=1e-4, atol=1e-5)


def test_every_token_of_the_source_matters_and_its_neighbours_are_told_apart():
    funnel, target = model(), ids(1, TOKENS)
    source = ids(1, SOURCE, seed=1)
    logits = funnel(target, source=source)
    for position in range(SOURCE):
        changed = source.clone()
        changed[:, position] = (changed[:, position] + 1) % N_VOCAB
        assert not torch.allclose(funnel(target, source=changed), logits, atol=1e-4)
    assert not torch.allclose(funnel(target, source=source[:, [1, 0, *range(2, SOURCE)]]), logits, atol=1e-4)


def test_it_trains_copies_and_keeps_the_parameters_of_the_baseline():
    funnel, plain = ROW.build(baseline(N_VOCAB)), MODIFICATIONS["baseline"].build(baseline(N_VOCAB))
    assert {name: p.shape for name, p in funnel.state_dict().items()} == {
        name: p.shape for name, p in plain.state_dict().items()
    }
    with torch.device("meta"):
        assert round(sum(p.numel() for p in ROW.build(baseline(**T5_BASE)).parameters()) / 1e6) == 223
    optimizer = torch.optim.Adam(funnel.parameters(), lr=1e-2)
    source, target = ids(8, SOURCE), ids(8, TOKENS, seed=1)
    losses = []
    for _ in range(7):
        loss = -target_log_probs(funnel, source, target[:, :-1], target[:, 1:]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 1
    other = copy.deepcopy(funnel)
    assert torch.equal(funnel(target, source=source), other(target, source=source))


@pytest.mark.parametrize(("n_layers", "layers"), [(12, {4, 8}), (6, {2, 4}), (2, {0, 1})])
def test_groups_are_thirds(n_layers, layers):
    assert isinstance(funnel := model(n_layers=n_layers).encoder, FunnelEncoder) and funnel.pooling_layers == layers
