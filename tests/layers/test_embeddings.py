"""Embeddings and unembeddings against PyTorch, Hugging Face, and one-hot products written out."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from randomness import randn, randomize
from torch import nn
from transformers import (
    AlbertConfig,
    AlbertModel,
    Gemma2Config,
    Gemma2ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from llm_anatomy.layers.embeddings import (
    AdaptiveEmbedding,
    AdaptiveSoftmax,
    FactorizedEmbedding,
    FactorizedUnembedding,
    MixtureOfSoftmaxes,
    TokenEmbedding,
    Unembedding,
)

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
TOLERANCE = {torch.float32: dict(rtol=1e-4, atol=1e-4), torch.float64: dict(rtol=1e-9, atol=1e-9)}
BATCH, TOKENS, D_MODEL, N_VOCAB, CUTOFFS = 3, 7, 16, 50, [9, 20, 31]


def some_ids(n_vocab=N_VOCAB, seed=0):
    """With the first and the last of the vocabulary and of each cluster."""
    ids = torch.randint(n_vocab, (BATCH, TOKENS), generator=torch.Generator().manual_seed(seed))
    ids[0] = torch.tensor([0, 8, 9, 19, 20, 30, 31])
    ids[1, 0] = n_vocab - 1
    return ids


def parameters(*modules):
    return sum(p.numel() for p in nn.ModuleList(modules).parameters())


# --- The table, in and out ---


@pytest.mark.syllabus("UCL-10", "UCL-12")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_looking_up_equals_a_one_hot_product(scale, dtype, device):
    embedding = randomize(TokenEmbedding(N_VOCAB, D_MODEL, scale=scale)).to(device, dtype)
    ids = some_ids().to(device)
    expected = F.one_hot(ids, N_VOCAB).to(dtype) @ embedding.weight * scale
    torch.testing.assert_close(embedding(ids), expected, **TOLERANCE[dtype])
    torch.testing.assert_close(embedding(ids.int()), expected, **TOLERANCE[dtype])
    assert embedding(ids).dtype == dtype


@pytest.mark.syllabus("UCL-10")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("scale", "softcapping"), [(1.0, None), (0.25, None), (1.0, 2.0), (3.0, 0.7)])
def test_logits_equal_products_with_every_row(scale, softcapping, bias, dtype, device):
    unembedding = Unembedding(
        TokenEmbedding(N_VOCAB, D_MODEL, scale=9.0), bias=bias, scale=scale, softcapping=softcapping
    )
    randomize(unembedding).to(dtype)
    x = randn(BATCH, TOKENS, D_MODEL, dtype=dtype)
    expected = torch.stack([(x * row).sum(-1) for row in unembedding.embedding.weight], dim=-1) * scale
    expected = expected + (unembedding.bias if bias else 0)
    if softcapping is not None:
        expected = softcapping * torch.tanh(expected / softcapping)
        assert expected.abs().max() <= softcapping and expected.abs().max() > 0.9 * softcapping
    torch.testing.assert_close(unembedding.to(device)(x.to(device)).cpu(), expected.detach(), **TOLERANCE[dtype])


@pytest.mark.syllabus("UCL-11", "GT-19")
def test_tied_weights_are_one_object_with_the_sum_of_both_gradients():
    embedding = randomize(TokenEmbedding(N_VOCAB, D_MODEL))
    tied, untied = Unembedding(embedding), Unembedding(copy.deepcopy(embedding))
    assert tied.embedding is embedding
    assert parameters(embedding, untied) - parameters(embedding, tied) == N_VOCAB * D_MODEL
    ids = some_ids()

    def gradients(unembedding):
        embedding.zero_grad(), unembedding.zero_grad()
        F.cross_entropy(unembedding(embedding(ids)).flatten(0, 1), ids.flatten().roll(1)).backward()
        return embedding.weight.grad.clone(), unembedding.embedding.weight.grad.clone()

    at_input, at_output = gradients(untied)
    assert not torch.allclose(at_input, at_output)
    torch.testing.assert_close(gradients(tied)[0], at_input + at_output)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = TokenEmbedding(N_VOCAB, D_MODEL)
        self.unembedding = Unembedding(self.embedding)

    def forward(self, ids):
        return self.unembedding(self.embedding(ids))


@pytest.mark.syllabus("UCL-11")
def test_what_is_tied_stays_tied():
    first, ids = randomize(Model()), some_ids()
    with torch.device("meta"):
        second = Model()
    assert second(ids.to("meta")).shape == (BATCH, TOKENS, N_VOCAB)
    second.to_empty(device="cpu").load_state_dict(first.state_dict())
    third = Model()
    third.load_state_dict(copy.deepcopy(first.state_dict()), assign=True)
    for model in (first, second, third, copy.deepcopy(first), copy.deepcopy(first).double()):
        torch.testing.assert_close(model(ids).float(), first(ids), rtol=1e-4, atol=1e-5)
        assert model.unembedding.embedding.weight is model.embedding.weight
        with torch.no_grad():
            model.embedding.weight[3] = 7.0
        assert model.unembedding.embedding.weight[3].eq(7).all() and len(list(model.parameters())) == 1
        randomize(model)


@pytest.mark.syllabus("UCL-10")
def test_parameters_of_the_bigram_network_of_the_lecture():
    n_vocab, hidden, d_model = 50257, 1024, 256
    with torch.device("meta"):
        without = nn.Linear(n_vocab, hidden, bias=False), nn.Linear(hidden, n_vocab, bias=False)
        inner = nn.Linear(d_model, hidden, bias=False), nn.Linear(hidden, d_model, bias=False)
        embedding = TokenEmbedding(n_vocab, d_model)
        outer = Unembedding(TokenEmbedding(n_vocab, d_model))
        assert round(parameters(*without) / 1e6, 1) == 102.9
        assert round(parameters(embedding, *inner, outer) / 1e6, 1) == 26.3
        assert parameters(embedding, *inner, outer) - parameters(embedding, *inner, Unembedding(embedding)) == (
            n_vocab * d_model
        )


@pytest.mark.syllabus("UCL-13")
@pytest.mark.parametrize(
    ("n_vocab", "d_model", "millions"),
    [(37000, 512, 18.9), (37000, 1024, 37.9), (32000, 4096, 131.1), (256000, 3072, 786.4), (256000, 4608, 1179.6)],
)
def test_sizes_of_the_lecture(n_vocab, d_model, millions):
    with torch.device("meta"):
        assert round(parameters(TokenEmbedding(n_vocab, d_model)) / 1e6, 1) == millions


def test_ends_of_gemma_2_are_a_scaled_embedding_and_capped_logits():
    config = Gemma2Config(vocab_size=N_VOCAB, hidden_size=D_MODEL, intermediate_size=8, num_hidden_layers=1, head_dim=4)
    config.num_attention_heads = config.num_key_value_heads = 2
    config.final_logit_softcapping = 0.8
    config.pad_token_id = 0
    peer = randomize(Gemma2ForCausalLM(config)).eval()
    embedding = TokenEmbedding(N_VOCAB, D_MODEL, scale=math.sqrt(D_MODEL))
    embedding.load_state_dict({"weight": peer.model.embed_tokens.weight})
    unembedding = Unembedding(embedding, softcapping=0.8)
    ids = some_ids()
    with torch.no_grad():
        torch.testing.assert_close(embedding(ids), peer.model.embed_tokens(ids), **TOLERANCE[torch.float32])
        hidden = peer.model(ids).last_hidden_state
        torch.testing.assert_close(unembedding(hidden), peer(ids).logits, **TOLERANCE[torch.float32])
        uncapped = Unembedding(embedding)
        assert (uncapped(hidden) - peer(ids).logits).abs().max() > 0.1  # a missing cap is seen


def test_logits_of_t5_are_scaled_and_tied():
    config = T5Config(vocab_size=N_VOCAB, d_model=D_MODEL, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    peer = randomize(T5ForConditionalGeneration(config)).eval()
    embedding = TokenEmbedding(N_VOCAB, D_MODEL)
    embedding.load_state_dict({"weight": peer.shared.weight})
    ids = some_ids()
    with torch.no_grad():
        output = peer(input_ids=ids, decoder_input_ids=ids.flip(1), output_hidden_states=True)
        hidden = output.decoder_hidden_states[-1]
        unembedding = Unembedding(embedding, scale=D_MODEL**-0.5)
        torch.testing.assert_close(unembedding(hidden), output.logits, **TOLERANCE[torch.float32])
        torch.testing.assert_close(embedding(ids), peer.shared(ids), rtol=0, atol=0)


# --- Factorized ---


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("bias", [False, True])
def test_a_factorized_embedding_is_a_lookup_in_a_product(bias, dtype, device):
    embedding = randomize(FactorizedEmbedding(N_VOCAB, 5, D_MODEL, bias=bias)).to(device, dtype)
    table = embedding.embedding.weight @ embedding.w_up.weight.T + (embedding.w_up.bias if bias else 0)
    ids = some_ids().to(device)
    torch.testing.assert_close(embedding(ids), table[ids], **TOLERANCE[dtype])
    assert torch.linalg.matrix_rank(table.detach() - table.detach()[0]) <= 5
    assert parameters(embedding) == N_VOCAB * 5 + 5 * D_MODEL + D_MODEL * bias


@pytest.mark.syllabus("GT-19")
def test_the_entrance_of_albert():
    """Positions, segments and a norm stand between its table and its projection."""
    config = AlbertConfig(
        vocab_size=N_VOCAB, embedding_size=6, hidden_size=D_MODEL, num_attention_heads=2, intermediate_size=8
    )
    peer = randomize(AlbertModel(config)).eval()
    ours = FactorizedEmbedding(N_VOCAB, 6, D_MODEL, bias=True)
    into = peer.encoder.embedding_hidden_mapping_in
    ours.load_state_dict(
        {
            "embedding.weight": peer.embeddings.word_embeddings.weight,
            "w_up.weight": into.weight,
            "w_up.bias": into.bias,
        }
    )
    ids, positions = some_ids(), torch.arange(TOKENS)
    with torch.no_grad():
        torch.testing.assert_close(ours(ids), into(peer.embeddings.word_embeddings(ids)), **TOLERANCE[torch.float32])
        others = peer.embeddings.position_embeddings(positions) + peer.embeddings.token_type_embeddings.weight[0]
        hidden = ours.w_up(peer.embeddings.LayerNorm(ours.embedding(ids) + others))
        expected = peer(ids, output_hidden_states=True).hidden_states[0]
        torch.testing.assert_close(hidden, expected, **TOLERANCE[torch.float32])


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_a_factorized_unembedding_is_a_product_with_the_vectors_of_all_tokens(scale, dtype, device):
    x = randn(BATCH, TOKENS, D_MODEL, dtype=dtype).to(device)
    for make in (
        lambda: FactorizedEmbedding(N_VOCAB, 5, D_MODEL),
        lambda: AdaptiveEmbedding(N_VOCAB, D_MODEL, CUTOFFS, factor=2),
        lambda: AdaptiveEmbedding(N_VOCAB, D_MODEL, CUTOFFS, widths=[7, 16, 3, 5]),
    ):
        embedding = randomize(make()).to(device, dtype)
        vectors = embedding(torch.arange(N_VOCAB, device=device)[None])[0]  # (n_vocab, d_model)
        unembedding = FactorizedUnembedding(embedding, scale=scale)
        torch.testing.assert_close(unembedding(x), scale * x @ vectors.T, **TOLERANCE[dtype])
        assert parameters(embedding, unembedding) == parameters(embedding)


# --- Adaptive ---


def torch_adaptive(softmax, dtype, factor=4):
    """PyTorch's adaptive softmax with the weights of ours."""
    tables = [table.weight for table in softmax.embedding.tables]
    peer = nn.AdaptiveLogSoftmaxWithLoss(D_MODEL, N_VOCAB, CUTOFFS, div_value=factor).to(dtype)
    with torch.no_grad():
        peer.head.weight.copy_(torch.cat([tables[0], softmax.w_clusters.weight]))
        for tail, table, project in zip(peer.tail, tables[1:], softmax.embedding.w_up[1:], strict=True):
            tail[0].weight.copy_(torch.eye(D_MODEL) if factor == 1 else project.weight.T)
            tail[1].weight.copy_(table)
    return peer


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("factor", [1, 2])
def test_adaptive_softmax_equals_pytorchs(factor, dtype, device):
    softmax = randomize(AdaptiveSoftmax(AdaptiveEmbedding(N_VOCAB, D_MODEL, CUTOFFS, factor=factor))).to(dtype)
    peer, x = torch_adaptive(softmax, dtype, factor), randn(BATCH, TOKENS, D_MODEL, dtype=dtype)
    softmax.to(device)
    targets = [some_ids(), torch.zeros(BATCH, TOKENS, dtype=torch.long), torch.full((BATCH, TOKENS), N_VOCAB - 1)]
    for target in targets:  # in every cluster, in the head alone, in the last cluster alone
        expected = peer(x.flatten(0, 1), target.flatten()).output.view(BATCH, TOKENS)
        torch.testing.assert_close(softmax(x.to(device), target.to(device)).cpu(), expected, **TOLERANCE[dtype])
    everything = softmax.log_prob(x.to(device)).cpu()
    torch.testing.assert_close(everything.flatten(0, 1), peer.log_prob(x.flatten(0, 1)), **TOLERANCE[dtype])
    torch.testing.assert_close(everything.exp().sum(-1), torch.ones(BATCH, TOKENS, dtype=dtype))
    torch.testing.assert_close(everything.gather(-1, targets[0][..., None])[..., 0], softmax.cpu()(x, targets[0]))


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("factor", [1, 2])
def test_adaptive_embedding_equals_one_token_at_a_time(factor, dtype, device):
    embedding = randomize(AdaptiveEmbedding(N_VOCAB, D_MODEL, CUTOFFS, factor=factor)).to(device, dtype)
    ids, edges = some_ids(), [0, *CUTOFFS, N_VOCAB]
    result = embedding(ids.to(device))
    for b in range(BATCH):
        for t in range(TOKENS):
            cluster = next(c for c in range(4) if edges[c] <= ids[b, t] < edges[c + 1])
            row = embedding.tables[cluster].weight[ids[b, t] - edges[cluster]]
            expected = row if factor == 1 or cluster == 0 else embedding.w_up[cluster].weight @ row
            torch.testing.assert_close(result[b, t], expected, **TOLERANCE[dtype])
    assert [len(table.weight) for table in embedding.tables] == [9, 11, 11, 19]
    widths = [D_MODEL // factor**c for c in range(4)]
    assert [table.weight.shape[1] for table in embedding.tables] == widths
    assert embedding(torch.empty(2, 0, dtype=torch.long, device=device)).shape == (2, 0, D_MODEL)
    assert embedding(torch.tensor([[49]], device=device)).shape == (1, 1, D_MODEL)  # three clusters have no token


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_clusters_of_any_width_equal_one_token_at_a_time(scale, dtype, device):
    """A wide cluster may follow a narrow one, as that of the sentinels in Narang et al. does."""
    widths = [12, 5, 1, 16]
    embedding = randomize(AdaptiveEmbedding(N_VOCAB, D_MODEL, CUTOFFS, widths=widths)).to(device, dtype)
    softmax = AdaptiveSoftmax(embedding, scale=scale).to(device, dtype)
    randomize(softmax.w_clusters)
    assert [table.weight.shape[1] for table in embedding.tables] == widths
    edges, x = [0, *CUTOFFS, N_VOCAB], randn(BATCH, TOKENS, D_MODEL, dtype=dtype).to(device)
    result = softmax.log_prob(x)
    vectors = []
    for w in range(N_VOCAB):
        c = next(c for c in range(4) if edges[c] <= w < edges[c + 1])
        row = embedding.tables[c].weight[w - edges[c]]
        vectors.append(row if widths[c] == D_MODEL else embedding.w_up[c].weight @ row)
        torch.testing.assert_close(embedding(torch.tensor([[w]], device=device))[0, 0], vectors[-1])
    for b in range(BATCH):
        for t in range(TOKENS):
            products = [scale * x[b, t] @ vector for vector in vectors]
            clusters = [scale * x[b, t] @ row for row in softmax.w_clusters.weight]
            head = sum(p.exp() for p in products[: edges[1]] + clusters)
            for w in (0, 8, 9, 19, 20, 30, 31, 49):
                c = next(c for c in range(4) if edges[c] <= w < edges[c + 1])
                expected = products[w].exp() / head
                if c > 0:
                    within = sum(p.exp() for p in products[edges[c] : edges[c + 1]])
                    expected = clusters[c - 1].exp() / head * products[w].exp() / within
                torch.testing.assert_close(result[b, t, w].exp(), expected, **TOLERANCE[dtype])
    ids = some_ids().to(device)
    torch.testing.assert_close(softmax(x, ids), result.gather(-1, ids[..., None])[..., 0], **TOLERANCE[dtype])
    assert torch.equal(softmax(x), result)


@pytest.mark.syllabus("GT-19")
def test_tied_adaptive_ends_share_tables_and_projections():
    embedding = randomize(AdaptiveEmbedding(N_VOCAB, D_MODEL, CUTOFFS, factor=2))
    tied, untied = AdaptiveSoftmax(embedding), AdaptiveSoftmax(copy.deepcopy(embedding))
    untied.w_clusters.load_state_dict(randomize(tied.w_clusters).state_dict())
    tables_and_projections = parameters(embedding)
    assert parameters(embedding, untied) - parameters(embedding, tied) == tables_and_projections
    assert tables_and_projections == 9 * 16 + 11 * 8 + 11 * 4 + 19 * 2 + (8 + 4 + 2) * 16
    ids = some_ids()
    grads = []
    for softmax in (tied, untied):
        softmax.zero_grad(), embedding.zero_grad()
        (-softmax(embedding(ids), ids.roll(1, -1)).mean()).backward()
        grads.append([p.grad.clone() for p in embedding.parameters()])
    at_output = [p.grad for p in untied.embedding.parameters()]
    for both, at_input, output in zip(grads[0], grads[1], at_output, strict=True):
        torch.testing.assert_close(both, at_input + output)
        assert output.abs().sum() > 0 and at_input.abs().sum() > 0


def test_the_comparison_sees_a_shifted_cutoff_and_a_tail_without_its_head(monkeypatch):
    softmax = randomize(AdaptiveSoftmax(AdaptiveEmbedding(N_VOCAB, D_MODEL, CUTOFFS, factor=2)))
    x, targets = randn(BATCH, TOKENS, D_MODEL), some_ids()
    expected = torch_adaptive(softmax, torch.float32, 2)(x.flatten(0, 1), targets.flatten()).output.view(BATCH, TOKENS)
    torch.testing.assert_close(softmax(x, targets), expected, **TOLERANCE[torch.float32])
    original = AdaptiveEmbedding.clusters
    monkeypatch.setattr(AdaptiveEmbedding, "clusters", lambda self, ids: original(self, (ids - 1).clamp(min=0)))
    with pytest.raises((AssertionError, IndexError, RuntimeError)):
        torch.testing.assert_close(softmax(x, targets), expected, **TOLERANCE[torch.float32])
    monkeypatch.undo()
    head = AdaptiveSoftmax.head
    monkeypatch.setattr(AdaptiveSoftmax, "head", lambda self, x: head(self, x) * (torch.arange(12) < 9))
    assert (softmax(x, targets) - expected).abs().max() > 0.1


# --- Mixture of softmaxes ---


@pytest.mark.syllabus("GT-19")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("n_components", [1, 3])
def test_a_mixture_of_softmaxes_equals_a_sum_of_probabilities(n_components, dtype, device):
    embedding = randomize(TokenEmbedding(N_VOCAB, D_MODEL, scale=7.0))
    mixture = randomize(MixtureOfSoftmaxes(embedding, n_components)).to(device, dtype)
    x = randn(BATCH, TOKENS, D_MODEL, dtype=dtype).to(device)
    result = mixture(x)
    rows = mixture.w_components.weight.view(n_components, D_MODEL, D_MODEL)
    for b in range(BATCH):
        for t in range(TOKENS):
            weights = (mixture.w_weights.weight @ x[b, t]).softmax(0)
            expected = torch.zeros(N_VOCAB, dtype=dtype, device=device)
            for weight, w in zip(weights, rows, strict=True):
                expected += weight * (embedding.weight @ (w @ x[b, t]).tanh()).softmax(0)
            torch.testing.assert_close(result[b, t].exp(), expected, **TOLERANCE[dtype])
    torch.testing.assert_close(result.exp().sum(-1), torch.ones(BATCH, TOKENS, dtype=dtype, device=device))
    assert parameters(mixture) == parameters(embedding) + n_components * (D_MODEL + D_MODEL**2)


@pytest.mark.syllabus("GT-19")
def test_a_mixture_is_not_bound_to_the_rank_of_the_table():
    """Log-probabilities are logits less one number for each context, so one softmax has a rank of at most
    d_model + 1."""
    x = randn(1, 60, 4, dtype=torch.float64)
    table = randomize(TokenEmbedding(N_VOCAB, 4), scale=1.0).double()
    one, mixture = (randomize(MixtureOfSoftmaxes(table, n), scale=1.0).double() for n in (1, 3))
    for log_probs in (Unembedding(table)(x).log_softmax(-1), one(x)):
        assert torch.linalg.matrix_rank(log_probs[0].detach()) == 5
    assert torch.linalg.matrix_rank(mixture(x)[0].detach()) > 30


def test_a_mixture_of_unlikely_tokens_stays_finite():
    mixture = randomize(MixtureOfSoftmaxes(TokenEmbedding(N_VOCAB, D_MODEL), 3), scale=30.0)
    x = randn(BATCH, TOKENS, D_MODEL).requires_grad_()
    log_probs = mixture(x)
    assert log_probs.min() < -200  # the probability itself is 0 in float32
    (gradient,) = torch.autograd.grad(log_probs.sum(), x)
    assert log_probs.isfinite().all() and gradient.isfinite().all()


# --- Numbers, gradients, copies ---

MAKERS = {
    "token": lambda: TokenEmbedding(N_VOCAB, D_MODEL, scale=3.0),
    "factorized": lambda: FactorizedEmbedding(N_VOCAB, 5, D_MODEL, bias=True),
    "adaptive": lambda: AdaptiveEmbedding(N_VOCAB, D_MODEL, CUTOFFS, factor=2),
    "widths": lambda: AdaptiveEmbedding(N_VOCAB, D_MODEL, CUTOFFS, widths=[16, 5, 1, 16]),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_gradients_of_embeddings_are_those_of_finite_differences(make):
    embedding, ids = randomize(make()).double(), some_ids()
    assert torch.autograd.gradcheck(lambda *_: embedding(ids), tuple(embedding.parameters()), fast_mode=True)


def test_gradients_of_the_ends_are_those_of_finite_differences():
    x, ids = randn(BATCH, TOKENS, D_MODEL, dtype=torch.float64).requires_grad_(), some_ids()
    adaptive = randomize(AdaptiveSoftmax(MAKERS["adaptive"]())).double()
    plain = randomize(Unembedding(MAKERS["token"](), bias=True, scale=0.5, softcapping=2.0)).double()
    mixture = randomize(MixtureOfSoftmaxes(MAKERS["token"](), 3)).double()
    factors = randomize(FactorizedUnembedding(MAKERS["widths"](), scale=0.5)).double()
    for module, run in (
        (adaptive, lambda x, *_: adaptive(x, ids)),
        (plain, lambda x, *_: plain(x)),
        (mixture, lambda x, *_: mixture(x)),
        (factors, lambda x, *_: factors(x)),
    ):
        assert torch.autograd.gradcheck(run, (x, *module.parameters()), fast_mode=True)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_bfloat16_stays_close(make):
    embedding, ids = randomize(make()), some_ids()
    expected = embedding(ids)
    result = copy.deepcopy(embedding).bfloat16()(ids)
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result.float(), expected, rtol=0.02, atol=0.02)
    x = randn(BATCH, TOKENS, D_MODEL)
    if isinstance(embedding, FactorizedEmbedding):
        return
    if isinstance(embedding, AdaptiveEmbedding):
        softmax = randomize(AdaptiveSoftmax(embedding))
        expected, result = softmax(x, ids), softmax.bfloat16()(x.bfloat16(), ids)
    else:
        unembedding = Unembedding(embedding, softcapping=5.0)
        expected, result = unembedding(x), unembedding.bfloat16()(x.bfloat16())
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result.float(), expected, rtol=0.02, atol=0.1)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_weights_go_through_a_file_and_the_meta_device(make):
    first = randomize(make())
    with torch.device("meta"):
        second = make()
    second.load_state_dict(first.state_dict(), assign=True)
    torch.testing.assert_close(second(some_ids()), first(some_ids()), rtol=0, atol=0)


def test_tables_start_small():
    weight = TokenEmbedding(1000, 64).weight
    assert abs(weight.std().item() - 0.02) < 5e-4 and abs(weight.mean().item()) < 5e-4


@pytest.mark.slow
def test_compiles_without_a_graph_break(run_without_shape_checks):
    """How many tokens a
    cluster has is not known to a graph, so the adaptive ends break it, and keep their numbers."""
    code = (
        "import torch; from llm_anatomy.layers.embeddings import *\n"
        "ids = torch.randint(50, (3, 7)); x = torch.randn(3, 7, 16)\n"
        "adaptive = AdaptiveEmbedding(50, 16, [9, 20])\n"
        "for m, whole, given in (\n"
        "    (TokenEmbedding(50, 16, scale=4.0), True, (ids,)),\n"
        "    (FactorizedEmbedding(50, 5, 16), True, (ids,)),\n"
        "    (Unembedding(TokenEmbedding(50, 16), bias=True, softcapping=2.0), True, (x,)),\n"
        "    (adaptive, False, (ids,)),\n"
        "    (AdaptiveSoftmax(adaptive), False, (x, ids)),\n"
        "    (FactorizedUnembedding(adaptive, scale=2.0), True, (x,)),\n"
        "    (MixtureOfSoftmaxes(TokenEmbedding(50, 16), 3), True, (x,)),\n"
        "):\n"
        "    torch._dynamo.reset(); f = torch.compile(m, fullgraph=whole, backend='eager')\n"
        "    torch.testing.assert_close(f(*given), m(*given))"
    )
    run_without_shape_checks(code)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: TokenEmbedding(0, 4), "n_vocab=0 must be at least 1"),
        (lambda: FactorizedEmbedding(5, 0, 4), "d_embed=0 must be at least 1"),
        (lambda: FactorizedEmbedding(5, 2, 0), "d_model=0 must be at least 1"),
        (lambda: Unembedding(TokenEmbedding(5, 4), softcapping=0.0), "cap=0.0 must be above 0"),
        (lambda: Unembedding(TokenEmbedding(5, 4), softcapping=math.nan), "cap=nan must be above 0"),
        (
            lambda: AdaptiveEmbedding(50, 16, [20, 9]),
            r"cutoffs=\[20, 9\] must increase, from .* at most n_vocab - 1 = 49",
        ),
        (lambda: AdaptiveEmbedding(50, 16, [50]), r"cutoffs=\[50\] must increase"),
        (lambda: AdaptiveEmbedding(50, 16, [0, 5]), r"cutoffs=\[0, 5\] must increase"),
        (lambda: AdaptiveEmbedding(50, 16, [5], factor=0), "factor=0 must be at least 1"),
        (lambda: AdaptiveEmbedding(50, 16, [5], widths=[16]), r"widths=\[16\] must be 2 numbers of at least 1"),
        (lambda: AdaptiveEmbedding(50, 16, [5], widths=[16, 0]), r"widths=\[16, 0\] must be 2 numbers of at least 1"),
        (lambda: MixtureOfSoftmaxes(TokenEmbedding(5, 4), 0), "n_components=0 must be at least 1"),
        (
            lambda: AdaptiveEmbedding(50, 8, [5, 9]),
            "factor=4 is too large: the last of 3 clusters of d_model=8 has width 0",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("wrong", [-1, 50])
def test_ids_outside_the_vocabulary_are_refused_before_any_work(make, wrong):
    embedding = make()
    with pytest.raises(ValueError, match=f"ids hold {wrong}; they must be 0 to n_vocab - 1 = 49"):
        embedding(torch.tensor([[3, wrong]]))
    if isinstance(embedding, AdaptiveEmbedding):
        with pytest.raises(ValueError, match=f"targets hold {wrong}; they must be 0 to n_vocab - 1 = 49"):
            AdaptiveSoftmax(embedding)(torch.randn(1, 2, D_MODEL), torch.tensor([[3, wrong]]))
