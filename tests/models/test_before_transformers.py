"""Models before and beside the Transformer, against PyTorch's, Hugging Face's, and the formulas written out."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transformers import MambaConfig, MambaForCausalLM

from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.recurrent import ElmanCell, GRUCell, LSTMCell, truncated_backpropagation
from llm_anatomy.layers.state_space import selective_scan_sequential
from llm_anatomy.models.before_transformers import (
    BigramNetwork,
    EmbeddedBigramNetwork,
    MambaLM,
    MegaByte,
    NeuralProbabilisticLM,
    RecurrentEncoderDecoder,
    RecurrentLM,
)
from llm_anatomy.models.block import EncoderOutput
from llm_anatomy.models.costs import costs
from llm_anatomy.models.generation import beam_search, generate

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
BATCH, TOKENS, VOCAB, D_EMBED, D_HIDDEN, N_CTX = 3, 9, 13, 6, 10, 4
CELLS = {ElmanCell: nn.RNN, LSTMCell: nn.LSTM, GRUCell: nn.GRU}
PATCH = 4


def randomize(module, seed=0):
    """Every parameter random, biases and norms too: default values hide faults."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            around = float("norm" in name and name.endswith("weight") or name.split(".")[-1] == "D")
            parameter.copy_(around + 0.5 * torch.randn(parameter.shape, generator=g))
    return module


def ids(seed=1, tokens=TOKENS, batch=BATCH, vocab=VOCAB):
    return torch.randint(0, vocab, (batch, tokens), generator=torch.Generator().manual_seed(seed))


def megabyte(n_vocab=VOCAB, **changes):
    sizes = dict(n_vocab=n_vocab, position="rope", norm="rmsnorm", feedforward="swiglu")
    levels = [
        ModelConfig(d_model=4 * D_EMBED, n_layers=2, n_heads=3, d_ff=17, n_ctx=21, **sizes),
        ModelConfig(d_model=10, n_layers=1, n_heads=1, d_ff=11, **sizes),
    ]
    return MegaByte(*levels, **dict(patch_size=PATCH) | changes)


def mamba(**changes):
    sizes = dict(d_model=8, n_layers=2, d_inner=14, d_state=5, d_conv=3, dt_rank=4)
    return MambaLM(VOCAB, **sizes | changes)


MAKERS = {
    "bigram": lambda: BigramNetwork(VOCAB, D_HIDDEN, n_matrices=3),
    "embedded bigram": lambda: EmbeddedBigramNetwork(VOCAB, D_EMBED, D_HIDDEN, n_matrices=3, tie_embeddings=True),
    "bengio": lambda: NeuralProbabilisticLM(VOCAB, N_CTX, D_EMBED, D_HIDDEN),
    "bengio, direct": lambda: NeuralProbabilisticLM(VOCAB, N_CTX, D_EMBED, D_HIDDEN, bias=True, direct=True),
    **{
        f"{cell.__name__}{', fused' * fused}": lambda cell=cell, fused=fused: RecurrentLM(
            cell, VOCAB, D_EMBED, D_HIDDEN, 2, fused=fused
        )
        for cell in CELLS
        for fused in (False, True)
    },
    "mamba": mamba,
    "mamba, one after the other": lambda: mamba(scan=selective_scan_sequential, tie_embeddings=False),
    "megabyte": megabyte,
}
every_model = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
WITH_STATE = {
    name: make for name, make in MAKERS.items() if "bi" not in name and "be" not in name and "mega" not in name
}


# --- Of all models ---


@every_model
@pytest.mark.parametrize("device", DEVICES)
def test_every_parameter_gets_a_gradient_and_low_precision_stays_close(make, device):
    model = randomize(make()).to(device)
    tokens = ids().to(device)
    logits = model(tokens)
    assert logits.shape == (BATCH, TOKENS, VOCAB)
    F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() and p.grad.any() for p in model.parameters())
    rough = copy.deepcopy(model).bfloat16()(tokens)
    assert rough.dtype == torch.bfloat16 and (rough - logits).norm() < 0.1 * logits.norm()


@pytest.mark.syllabus("UCL-10", "UCL-12", "UCL-14", "UCL-16")
@every_model
def test_the_future_has_no_influence_and_the_past_as_much_as_it_should(make):
    """Byte by byte, so that borders of patches are all met."""
    model, tokens = randomize(make()).double(), ids()
    logits = model(tokens)
    n_seen = {BigramNetwork: 1, EmbeddedBigramNetwork: 1, NeuralProbabilisticLM: N_CTX}.get(type(model), TOKENS)
    for t in range(TOKENS):
        changed = tokens.clone()
        changed[:, t] = (changed[:, t] + 1) % VOCAB
        differs = (model(changed) - logits).abs().amax((0, 2)) > 1e-9
        assert differs.tolist() == [t <= i < t + n_seen for i in range(TOKENS)]


@every_model
def test_logits_of_the_beginning_do_not_depend_on_the_length(make):
    model, tokens = randomize(make()).double(), ids()
    logits = model(tokens)
    for n in range(1, TOKENS):
        torch.testing.assert_close(model(tokens[:, :n]), logits[:, :n], rtol=1e-9, atol=1e-9)


@every_model
def test_a_text_learned_by_heart(make):
    """Of a text in which each token follows one token only, every model must learn what comes next."""
    torch.manual_seed(0)
    model, tokens = make(), torch.randperm(VOCAB, generator=torch.Generator().manual_seed(5))[None]
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    for _ in range(40):
        loss = F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 1 < math.log(VOCAB) - 1


@every_model
def test_state_dict_goes_round_and_models_are_made_without_numbers(make):
    model, other, tokens = randomize(make()), make(), ids()
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other(tokens), model(tokens))
    assert set(model.state_dict()) >= {name for name, _ in model.named_parameters()}
    with torch.device("meta"):
        assert sum(p.numel() for p in make().parameters()) == sum(p.numel() for p in model.parameters())


@pytest.mark.slow
def test_models_compile_without_a_graph_break(run_without_shape_checks):
    code = """
import torch
from llm_anatomy.config import ModelConfig
from llm_anatomy.layers.recurrent import LSTMCell
from llm_anatomy.models.before_transformers import *
level = dict(n_layers=1, n_heads=2, d_ff=9, n_vocab=13, position="rope")
models = [
    EmbeddedBigramNetwork(13, 6, 10), NeuralProbabilisticLM(13, 4, 6, 10, direct=True),
    RecurrentLM(LSTMCell, 13, 6, 10), MambaLM(13, 8, 1),
    MegaByte(ModelConfig(d_model=24, n_ctx=64, **level), ModelConfig(d_model=8, **level), 4),
]
ids = torch.randint(0, 13, (3, 5))
for model in models:
    torch._dynamo.reset()
    found = torch.compile(model, fullgraph=True, backend="eager")(ids)
    torch.testing.assert_close(found, model(ids))
"""
    run_without_shape_checks(code)


@pytest.mark.syllabus("UCL-14", "UCL-15", "UCL-16")
@pytest.mark.parametrize("make", WITH_STATE.values(), ids=WITH_STATE)
@pytest.mark.parametrize("pieces", [[1] * TOKENS, [4, 1, 4]], ids=str)
def test_token_by_token_equals_the_whole(make, pieces):
    model, tokens = randomize(make()).double(), ids()
    whole, end = model.advance(tokens)
    assert torch.equal(whole, model(tokens))
    state, found = None, []
    for piece in tokens.split(pieces, 1):
        logits, state = model.advance(piece, state)
        found.append(logits)
    torch.testing.assert_close(torch.cat(found, 1), whole, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(state, end, rtol=1e-9, atol=1e-9)


# --- Bigrams ---


@pytest.mark.syllabus("UCL-10")
def test_bigram_equals_the_formula_on_one_hot_vectors():
    """softmax(W_3 tanh(W_2 tanh(W_1 x))), columns as in the lecture; and with C and D."""
    tokens = ids()
    x = F.one_hot(tokens, VOCAB).double().mT  # (batch, n_vocab, tokens)
    plain = randomize(BigramNetwork(VOCAB, D_HIDDEN, n_matrices=3)).double()
    W_1, W_2, W_3 = plain.embedding.weight.T, plain.hidden_layers[0].weight, plain.unembedding.embedding.weight
    torch.testing.assert_close(plain(tokens).mT, W_3 @ torch.tanh(W_2 @ torch.tanh(W_1 @ x)))
    narrow = randomize(EmbeddedBigramNetwork(VOCAB, D_EMBED, D_HIDDEN, n_matrices=3)).double()
    C, D = narrow.embedding.weight.T, narrow.unembedding.embedding.weight
    assert C.shape == (D_EMBED, VOCAB) and D.shape == (VOCAB, D_EMBED)
    W_1, W_2, W_3 = *(w.weight for w in narrow.hidden_layers), narrow.w_last.weight
    torch.testing.assert_close(narrow(tokens).mT, D @ W_3 @ torch.tanh(W_2 @ torch.tanh(W_1 @ C @ x)))


@pytest.mark.syllabus("UCL-10")
def test_embeddings_make_a_network_that_the_plain_one_contains():
    narrow, plain = randomize(EmbeddedBigramNetwork(VOCAB, 3, D_HIDDEN)), BigramNetwork(VOCAB, D_HIDDEN)
    with torch.no_grad():
        W_1, W_2 = narrow.hidden_layers[0].weight, narrow.w_last.weight
        plain.embedding.weight.copy_(narrow.embedding.weight @ W_1.T)
        plain.unembedding.embedding.weight.copy_(narrow.unembedding.embedding.weight @ W_2)
    torch.testing.assert_close(narrow(ids()), plain(ids()))
    ranks = [torch.linalg.matrix_rank(e.weight).item() for e in (plain.embedding, plain.unembedding.embedding)]
    assert ranks == [3, 3]


@pytest.mark.syllabus("UCL-10", "UCL-11")
def test_parameters_of_the_lectures_bigrams():
    def count(make):
        with torch.device("meta"):
            return sum(parameter.numel() for parameter in make().parameters())

    plain = count(lambda: BigramNetwork(50257, 1024))
    narrow = count(lambda: EmbeddedBigramNetwork(50257, 256, 1024))
    tied = count(lambda: EmbeddedBigramNetwork(50257, 256, 1024, tie_embeddings=True))
    assert plain == 2 * 50257 * 1024 and round(plain / 1e6, 1) == 102.9
    assert narrow == 2 * 50257 * 256 + 2 * 256 * 1024 and round(narrow / 1e6, 1) == 26.3
    assert narrow - tied == 50257 * 256


@pytest.mark.syllabus("UCL-11")
def test_a_tied_table_gets_the_gradients_of_both_uses():
    tied = randomize(EmbeddedBigramNetwork(VOCAB, D_EMBED, D_HIDDEN, tie_embeddings=True))
    apart = EmbeddedBigramNetwork(VOCAB, D_EMBED, D_HIDDEN)
    apart.load_state_dict(tied.state_dict() | {"unembedding.embedding.weight": tied.embedding.weight})
    assert tied.unembedding.embedding is tied.embedding
    for model in (tied, apart):
        model(ids()).logsumexp(-1).sum().backward()
    both = apart.embedding.weight.grad + apart.unembedding.embedding.weight.grad
    torch.testing.assert_close(tied.embedding.weight.grad, both)


@pytest.mark.syllabus("UCL-10")
def test_a_bigram_network_learns_the_counts_of_pairs():
    """Its best prediction is how often each token follows each, which can be counted."""
    text = torch.tensor([0, 1, 0, 2, 0, 1, 2, 2, 1, 0, 1, 1, 0])
    counts = torch.zeros(3, 3)
    for a, b in zip(text[:-1], text[1:], strict=True):
        counts[a, b] += 1
    torch.manual_seed(0)
    model = BigramNetwork(3, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        F.cross_entropy(model(text[None, :-1])[0], text[1:]).backward()
        optimizer.step()
    found = model(torch.tensor([[0, 1, 2]])).softmax(-1)[0]
    torch.testing.assert_close(found, counts / counts.sum(1, keepdim=True), rtol=0, atol=0.02)


# --- Bengio's network ---


@pytest.mark.syllabus("UCL-12")
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_bengios_network_equals_the_formula_written_out(direct, bias):
    """One token after the other; the newest embedding first, zeros before the text."""
    model = randomize(NeuralProbabilisticLM(VOCAB, N_CTX, D_EMBED, D_HIDDEN, bias=bias, direct=direct)).double()
    tokens = ids()
    logits, C = model(tokens), model.embedding.weight
    for b in range(BATCH):
        for t in range(TOKENS):
            positions = range(t, t - N_CTX, -1)
            X = torch.cat([C[tokens[b, i]] if i >= 0 else torch.zeros(D_EMBED).double() for i in positions])
            hidden = model.w_1.weight @ X + (model.w_1.bias if bias else 0)
            expected = model.w_2.weight @ hidden.tanh() + (model.w_2.bias if bias else 0)
            expected = expected + (model.w_direct.weight @ X if direct else 0)
            torch.testing.assert_close(logits[b, t], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.syllabus("UCL-12")
def test_the_order_of_the_context_matters():
    model = randomize(NeuralProbabilisticLM(VOCAB, N_CTX, D_EMBED, D_HIDDEN))
    one, other = (model(torch.tensor([context]))[0, -1] for context in ([1, 2, 3, 4], [2, 1, 3, 4]))
    assert (one - other).abs().max() > 0.1


@pytest.mark.syllabus("UCL-12")
def test_parameters_are_those_of_the_paper():
    """Section 2: |V| (1 + n m + h) + h (1 + (n - 1) m) with the predicted word among the n, biases and direct
    connections. The lecture's question: W_1 has n_ctx d_emb columns, W_2 n_voc rows."""
    V, n, m, h = 17964, 6, 60, 50  # the AP News model of section 4
    with torch.device("meta"):
        model = NeuralProbabilisticLM(V, n - 1, m, h, bias=True, direct=True)
    assert sum(p.numel() for p in model.parameters()) == V * (1 + n * m + h) + h * (1 + (n - 1) * m)
    assert model.w_1.weight.shape == (h, (n - 1) * m) and model.w_2.weight.shape == (V, h)


@pytest.mark.syllabus("UCL-29")
def test_parameters_as_the_context_grows():
    """The lecture's second question: Bengio's grow with it, others do not, but for learned positions."""

    def bengio(n_ctx, d_hidden=D_HIDDEN):
        return NeuralProbabilisticLM(VOCAB, n_ctx, D_EMBED, d_hidden)

    def transformer(n_ctx, **more):
        sizes = dict(d_model=24, n_layers=2, n_heads=3, d_ff=64, n_vocab=101)
        return costs(ModelConfig(n_ctx=n_ctx, **sizes, **more), 1).total.n_parameters

    def count(model):
        return sum(parameter.numel() for parameter in model.parameters())

    assert count(bengio(20)) - count(bengio(10)) == 10 * D_EMBED * D_HIDDEN
    # quadratic where the hidden layer grows with the context: second differences are constant
    sizes = [count(bengio(n, d_hidden=n)) for n in (10, 20, 30, 40)]
    second = [a - 2 * b + c for a, b, c in zip(sizes, sizes[1:], sizes[2:], strict=False)]
    assert second == [2 * 10 * 10 * D_EMBED] * 2
    assert transformer(1000) == transformer(10)
    assert transformer(1000, position="learned") - transformer(10, position="learned") == 990 * 24
    # no length is told to a recurrent network; a state as long as the text makes its matrix quadratic in it
    states = [count(RecurrentLM(ElmanCell, VOCAB, D_EMBED, n)) for n in (10, 20, 30, 40)]
    assert [a - 2 * b + c for a, b, c in zip(states, states[1:], states[2:], strict=False)] == [2 * 10 * 10] * 2


# --- Recurrent networks ---


@pytest.mark.syllabus("UCL-14", "UCL-15")
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_models_equal_pytorchs(cell, fused):
    model = randomize(RecurrentLM(cell, VOCAB, D_EMBED, D_HIDDEN, 2, fused=fused)).double()
    theirs = CELLS[cell](D_EMBED, D_HIDDEN, 2, batch_first=True).double()
    for layer, ours in enumerate(model.recurrent.cells):
        for name, parameter in ours.named_parameters():
            getattr(theirs, f"{name}_l{layer}").data.copy_(parameter)
    hidden, _ = theirs(F.embedding(ids(), model.embedding.weight))
    expected = hidden @ model.unembedding.embedding.weight.T + model.unembedding.bias
    torch.testing.assert_close(model(ids()), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.syllabus("UCL-14")
@pytest.mark.parametrize("cell", CELLS)
def test_padding_changes_nothing(cell):
    model, tokens = randomize(RecurrentLM(cell, VOCAB, D_EMBED, D_HIDDEN, 2)).double(), ids()
    attention_mask = torch.ones(BATCH, TOKENS, dtype=torch.bool)
    attention_mask[0, :3] = attention_mask[2, 5:] = False
    padded = model(tokens, attention_mask=attention_mask)
    for row, mask, found in zip(tokens, attention_mask, padded, strict=True):
        torch.testing.assert_close(found[mask], model(row[None, mask])[0], rtol=1e-9, atol=1e-9)


@pytest.mark.syllabus("UCL-14")
def test_a_recurrent_model_is_trained_in_chunks():
    model = randomize(RecurrentLM(GRUCell, VOCAB, D_EMBED, D_HIDDEN))
    attention_mask = torch.ones(BATCH, TOKENS, dtype=torch.bool)
    attention_mask[1, 7:] = False
    found = [logits for logits, _ in truncated_backpropagation(model.advance, ids(), 4, mask=attention_mask)]
    torch.testing.assert_close(torch.cat(found, 1), model(ids(), attention_mask=attention_mask))


# --- The bottleneck ---


def translator(**changes):
    return RecurrentEncoderDecoder(
        **dict(n_source_vocab=17, n_vocab=VOCAB, d_embed=D_EMBED, d_hidden=D_HIDDEN) | changes
    )


@pytest.mark.syllabus("UCL-30")
@pytest.mark.parametrize("fused", [False, True])
def test_encoder_decoder_equals_two_lstms_of_pytorch(fused):
    model = randomize(translator(n_layers=2, fused=fused)).double()
    encoder, decoder = (nn.LSTM(D_EMBED, D_HIDDEN, 2, batch_first=True).double() for _ in range(2))
    for theirs, ours in ((encoder, model.encoder), (decoder, model.decoder.recurrent)):
        for layer, cell in enumerate(ours.cells):
            for name, parameter in cell.named_parameters():
                getattr(theirs, f"{name}_l{layer}").data.copy_(parameter)
    source = ids(seed=2, tokens=7, vocab=17)
    _, context = encoder(F.embedding(source, model.source_embedding.weight).flip(1))
    hidden, _ = decoder(F.embedding(ids(), model.decoder.embedding.weight), context)
    expected = hidden @ model.decoder.unembedding.embedding.weight.T + model.decoder.unembedding.bias
    torch.testing.assert_close(model(ids(), source=source), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.syllabus("UCL-30")
def test_all_that_the_target_knows_of_the_source_is_one_state_of_fixed_size():
    model = randomize(translator(n_layers=2)).double()
    sources = [ids(seed=3, tokens=n, vocab=17) for n in (2, 40)]
    contexts = [model.encode(source) for source in sources]
    for context in contexts:
        assert [tuple(part.shape) for part in context] == [(2, BATCH, D_HIDDEN)] * 2
    for source, context in zip(sources, contexts, strict=True):
        torch.testing.assert_close(model.advance(ids(), context)[0], model(ids(), source=source), rtol=1e-9, atol=1e-9)
    assert (model(ids(), source=sources[0]) - model(ids(), source=sources[1])).abs().max() > 0.1
    # token by token, from the context on
    state, found = contexts[0], []
    for token in ids().split(1, 1):
        logits, state = model.advance(token, state)
        found.append(logits)
    torch.testing.assert_close(torch.cat(found, 1), model(ids(), source=sources[0]), rtol=1e-9, atol=1e-9)


@pytest.mark.syllabus("UCL-30")
def test_padding_of_the_source_changes_nothing():
    model, source = randomize(translator()).double(), ids(seed=4, tokens=8, vocab=17)
    attention_mask = torch.ones(BATCH, 8, dtype=torch.bool)
    attention_mask[0, 5:] = attention_mask[1, :2] = False
    found = model(ids(), source=source, source_attention_mask=attention_mask)
    for b in range(BATCH):
        alone = model(ids()[b : b + 1], source=source[b : b + 1, attention_mask[b]])
        torch.testing.assert_close(found[b], alone[0], rtol=1e-9, atol=1e-9)


@pytest.mark.syllabus("UCL-30")
def test_every_parameter_of_the_translator_gets_a_gradient():
    model = randomize(translator(n_layers=2))
    model(ids(), source=ids(seed=2, tokens=7, vocab=17)).logsumexp(-1).sum().backward()
    assert all(parameter.grad.any() for parameter in model.parameters())


# --- Mamba, on tokens and on bytes ---


def hugging_faces(ours, n_vocab=VOCAB):
    config = MambaConfig(
        vocab_size=n_vocab, hidden_size=8, num_hidden_layers=2, state_size=5, expand=2, conv_kernel=3, time_step_rank=4,
        layer_norm_epsilon=1e-5, tie_word_embeddings=True,
    )  # fmt: skip
    theirs = MambaForCausalLM(config).eval()
    names = {"embedding.weight": "backbone.embeddings.weight", "norm.weight": "backbone.norm_f.weight"}
    state = {"lm_head.weight": ours.embedding.weight}
    for name, tensor in ours.state_dict().items():
        name = name.replace("block_residuals.", "backbone.layers.").replace("blocks.", "backbone.layers.")
        name = name.replace("backbone.layers.", "backbone.layers.", 1)
        if ".norm.weight" not in name:
            parts = name.split(".")
            name = ".".join([*parts[:3], "mixer", *parts[3:]]) if name.startswith("backbone") else names[name]
        state[name] = tensor
    theirs.load_state_dict(state)
    return theirs


@pytest.mark.syllabus("UCL-16")
@pytest.mark.parametrize("scan", ["parallel", "sequential"])
@pytest.mark.parametrize("n_vocab", [VOCAB, 256], ids=["tokens", "bytes"])
def test_mamba_equals_hugging_faces(scan, n_vocab):
    changes = dict(d_inner=16) | (dict(scan=selective_scan_sequential) if scan == "sequential" else {})
    model = randomize(MambaLM(n_vocab, **dict(d_model=8, n_layers=2, d_state=5, d_conv=3, dt_rank=4) | changes))
    theirs, tokens = hugging_faces(model, n_vocab), ids(vocab=n_vocab)
    if n_vocab == 256:
        tokens = torch.tensor([list(text.encode()) for text in ("Ça va, été", "two words, so", "naïve, oui..")])
    torch.testing.assert_close(model(tokens), theirs(tokens).logits, rtol=1e-4, atol=1e-4)
    parameter = model.blocks[1].A_log
    with torch.no_grad():
        parameter[0, 0] += 0.5
    assert (model(tokens) - theirs(tokens).logits).abs().max() > 1e-3  # a fault is seen


@pytest.mark.syllabus("UCL-16")
def test_a_bigger_mamba_is_counted_as_published():
    """Gu and Dao (2023), table 12: 130 million parameters for 24 layers of width 768; Hugging Face's count exactly."""
    with torch.device("meta"):
        ours = MambaLM(50280, 768, 24)
        theirs = MambaForCausalLM(MambaConfig(vocab_size=50280, hidden_size=768, num_hidden_layers=24))
    n = sum(parameter.numel() for parameter in ours.parameters())
    assert n == sum(parameter.numel() for parameter in theirs.parameters()) and round(n / 1e6, -1) == 130


@pytest.mark.syllabus("UCL-16")
def test_the_state_of_mamba_does_not_grow():
    model = mamba()
    sizes = {sum(x.numel() for block in model.advance(ids(tokens=n))[1] for x in block) for n in (1, 5, 50)}
    assert len(sizes) == 1


@pytest.mark.syllabus("UCL-16")
def test_mamba_reads_nothing_of_padding_before_a_text():
    model, tokens = randomize(mamba()), ids()
    attention_mask = torch.ones(BATCH, TOKENS, dtype=torch.bool)
    attention_mask[0, :4] = attention_mask[2, :1] = False
    found = model(tokens, attention_mask=attention_mask)
    for row, text, here in zip(found, tokens, attention_mask, strict=True):
        torch.testing.assert_close(row[here], model(text[None, here])[0])
    assert not torch.allclose(found[0], model(tokens)[0])
    with pytest.raises(ValueError, match="attention_mask must be False only before the first token"):
        model(tokens, attention_mask=~attention_mask)


def test_mamba_has_no_encoder_and_refuses_a_source():
    model, source = mamba(), EncoderOutput(torch.zeros(BATCH, 2, 8))
    with pytest.raises(ValueError, match="source must be None: Mamba has no encoder"):
        model.hidden_states(ids(), source=source)
    with pytest.raises(ValueError, match="n_source=2 must be None: Mamba has no encoder"):
        model.new_cache(BATCH, TOKENS, n_source=2)


@pytest.mark.syllabus("UCL-16")
def test_mamba_writes_from_its_state_what_it_writes_without():
    model, prompts = randomize(mamba()), [[3, 1, 4, 1, 5], [2, 6]]
    found = generate(model, prompts, max_new_tokens=6).ids
    for prompt, new in zip(prompts, found, strict=True):
        for token in new:
            assert model(torch.tensor([prompt]))[0, -1].argmax() == token
            prompt = [*prompt, token]
    for found in beam_search(model, prompts, n_beams=3, max_new_tokens=4)[1]:
        scores = model(torch.tensor([prompts[1] + found.ids]))[0].log_softmax(-1)[1:-1]
        assert scores.gather(1, torch.tensor(found.ids)[:, None]).sum().item() == pytest.approx(found.log_prob)


# --- MegaByte ---


def written_out(model, text):
    """The scores of every byte of one text, from those before it, by the formulas, one patch and byte at a time."""
    P, E_G, E_L = model.patch_size, model.global_embedding.weight, model.local_embedding.weight
    scores = []
    for t in range(len(text)):
        k, p = divmod(t, P)
        patches = [model.global_start]
        for patch in range(k):
            positions = range(patch * P, patch * P + P)
            patches.append(torch.cat([E_G[text[i]] + model.positions.table[i] for i in positions]))
        G = model.global_model(torch.stack(patches)[None])[0][0, k].view(P, -1)
        before = [model.local_start, *(E_L[text[k * P + i]] for i in range(p))]
        L = torch.stack([model.w_local.weight @ G[i] + before[i] for i in range(p + 1)])
        scores.append(E_L @ model.local_model(L[None])[0][0, p])
    return torch.stack(scores)


@pytest.mark.syllabus("UCL-09")
@pytest.mark.parametrize(("patch_size", "n_tokens"), [(4, 1), (4, 3), (4, 4), (4, 8), (4, 11), (3, 7), (1, 3)])
def test_megabyte_equals_the_formulas_written_out(patch_size, n_tokens):
    """Row t of the model scores byte t + 1: its rows are the formulas' from the second on, and one more."""
    model = randomize(megabyte(patch_size=patch_size)).double()
    tokens = ids(tokens=n_tokens)
    logits = model(tokens)
    for text, found in zip(tokens, logits, strict=True):
        expected = written_out(model, [*text.tolist(), 0])  # what the last byte is, its own score does not know
        torch.testing.assert_close(found, expected[1:], rtol=1e-9, atol=1e-9)


def test_a_shift_forgotten_would_be_seen():
    """The planted fault: were patches not moved on by one, a byte would see itself."""
    model, tokens = randomize(megabyte()).double(), ids()
    right = model(tokens)
    model._read_patches = lambda ids: MegaByte._read_patches(model, ids).roll(-1, 0)
    assert (model(tokens) - right).abs().max() > 1e-3
    changed = tokens.clone()
    changed[:, PATCH] = (changed[:, PATCH] + 1) % VOCAB
    assert ((model(changed) - model(tokens)).abs().amax((0, 2)) > 1e-9)[:PATCH].any()  # the future has influence


def test_megabyte_is_refused_where_it_makes_no_sense():
    level = dict(n_layers=1, n_heads=2, d_ff=9, n_vocab=VOCAB)
    wide, narrow = ModelConfig(d_model=24, n_ctx=64, **level), ModelConfig(d_model=6, **level)
    for given, sentence in [
        ((wide, narrow, 5), "patch_size=5 must divide global_config.d_model=24"),
        ((wide, narrow, 0), "patch_size=0"),
        ((narrow, wide, 2), "global_config.n_ctx=None must be given"),
        ((wide, ModelConfig(d_model=6, kind="encoder", **level), 4), "local_config.kind='encoder' must be 'decoder'"),
        (
            (ModelConfig(d_model=24, n_ctx=64, position="learned", **level), narrow, 4),
            "global_config.position='learned'",
        ),
    ]:
        with pytest.raises(ValueError, match=sentence):
            MegaByte(*given)
    with pytest.raises(ValueError, match="22 bytes are more than n_ctx=21"):
        megabyte()(ids(tokens=22))
    assert megabyte()(ids(tokens=21)).shape == (BATCH, 21, VOCAB)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: BigramNetwork(0, 4), "n_vocab=0"),
        (lambda: BigramNetwork(5, 4, 1), "n_matrices=1 must be at least 2"),
        (lambda: EmbeddedBigramNetwork(5, 4, 3, 1), "n_matrices=1 must be at least 2"),
        (lambda: EmbeddedBigramNetwork(5, 0, 3), "d_embed=0"),
        (lambda: NeuralProbabilisticLM(5, 0, 4, 3), "n_ctx=0"),
        (lambda: RecurrentLM(LSTMCell, 5, 4, 3, 0), "n_layers=0"),
        (lambda: mamba(n_layers=0), "n_layers=0"),
        (lambda: BigramNetwork(5, 4)(torch.tensor([[5]])), "ids hold 5"),
    ],
)
def test_sizes_out_of_range_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize(
    "make",
    [mamba, megabyte, lambda: EmbeddedBigramNetwork(VOCAB, 4, 3, tie_embeddings=True)],
    ids=["mamba", "megabyte", "bigram"],
)
def test_a_state_dict_names_the_tied_table_once(make):
    model = make()
    names = [name for name in model.state_dict() if "embedding" in name and "global" not in name]
    assert len(names) == 1 and model.unembedding.embedding is model.get_submodule(names[0].rpartition(".")[0])
    repeated = model.state_dict() | {"unembedding.embedding.weight": model.state_dict()[names[0]]}
    make().load_state_dict(repeated)  # as files of earlier versions have it
