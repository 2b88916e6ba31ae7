"""Answers that students give to the exercises of chapter 4: right ones pass, wrong ones are told what is wrong."""

import json
import math

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

from bookbinder import ROOT
from bookbinder.masters import load as load_master
from llm_anatomy.models.checkpoints import load
from llm_anatomy.notebook.checks import check

REAL_WEIGHTS = ROOT / "exercises" / "transformer" / "real_weights"


def told(name, answer):
    return check(f"transformer/{name}", answer)


# Right answers


def relu_by_hand(x, w_1, b_1, w_2, b_2):
    inner = torch.matmul(x, w_1.t()) + b_1
    inner[inner < 0] = 0
    return torch.matmul(inner, w_2.t()) + b_2


def layers_filled(x, w_1, b_1, w_2, b_2):
    first, second = nn.Linear(*w_1.shape[::-1]), nn.Linear(*w_2.shape[::-1])
    for layer, w, b in ((first, w_1, b_1), (second, w_2, b_2)):
        layer.weight.data, layer.bias.data = w, b
    return nn.Sequential(first, nn.ReLU(), second)(x)


def columns(x, w_1, b_1, w_2, b_2):
    columns = x.unsqueeze(-1)
    return (w_2 @ torch.maximum(w_1 @ columns + b_1[:, None], torch.zeros(())) + b_2[:, None]).squeeze(-1)


@pytest.mark.parametrize("answer", [relu_by_hand, layers_filled, columns])
def test_a_feed_forward_layer_may_be_written_in_many_ways(answer):
    assert told("feed_forward", answer).status == "passed"


def written_into(sentences, start, end, pad):
    batch, n = sentences.shape
    inputs, targets = torch.zeros(2, batch, n + 1, dtype=torch.int64)
    for row, sentence in enumerate(sentences):
        length = sum(int(token) != pad for token in sentence)
        inputs[row] = torch.tensor([start, *sentence.tolist()])
        targets[row] = torch.tensor([*sentence[:length].tolist(), end, *[pad] * (n - length)])
    return inputs, targets


def from_the_inputs(sentences, start, end, pad):
    inputs = torch.cat([torch.full((len(sentences), 1), start), sentences], 1)
    targets = inputs.roll(-1, 1)
    targets[:, -1] = pad
    targets[(targets == pad).cumsum(1) == 1] = end
    return inputs, targets


@pytest.mark.parametrize("answer", [written_into, from_the_inputs])
def test_a_shift_may_be_written_in_many_ways(answer):
    assert told("shift_right", answer).status == "passed"


def first_token_attention(x, source, is_word, w_query, w_key, w_value):
    outputs = torch.zeros(*x.shape[:2], w_value.shape[1])
    weights = torch.zeros(*x.shape[:2], source.shape[1])
    for b in range(len(x)):
        for t in range(x.shape[1]):
            scores = torch.stack([x[b, t] @ w_query @ (s @ w_key) for s in source[b]]) * w_query.shape[1] ** -0.5
            scores[~is_word[b]] = float("-inf")
            shares = scores.softmax(0)
            weights[b, t], outputs[b, t] = shares, shares @ (source[b] @ w_value)
    return outputs, weights


def stable_exponentials(x, source, is_word, w_query, w_key, w_value):
    scores = torch.bmm(x @ w_query, (source @ w_key).transpose(1, 2)).div(w_key.size(1) ** 0.5)
    scores = scores.masked_fill(is_word.logical_not().unsqueeze(-2), -1e30)
    e = (scores - scores.max(-1, keepdim=True).values).exp()
    weights = e / e.sum(-1, keepdim=True)
    return torch.bmm(weights, source @ w_value), weights


@pytest.mark.parametrize("answer", [first_token_attention, stable_exponentials])
def test_cross_attention_may_be_written_in_many_ways(answer):
    assert told("cross_attention", answer).status == "passed"


def as_hugging_face_does(logits, temperature, k, p):
    z = logits / temperature
    z = z.masked_fill(z < torch.topk(z, min(k, z.size(-1)))[0][..., -1, None], -float("inf"))
    downwards, order = torch.sort(z, descending=True)
    removed = downwards.softmax(-1).cumsum(-1) > p
    removed[1:] = removed[:-1].clone()
    removed[0] = False
    return z.masked_fill(removed.scatter(0, order, removed), -float("inf")).softmax(-1)


def ranks(logits, temperature, k, p):
    shares = torch.softmax(logits.double() / temperature, 0)
    shares[logits < sorted(logits.tolist(), reverse=True)[: max(1, k)][-1]] = 0
    shares /= shares.sum()
    total, kept = 0.0, torch.zeros_like(shares)
    while total < p - 1e-12 and len(shares.nonzero()):
        best = shares.argmax()
        total, kept[best] = total + shares[best].item(), shares[best]
        shares[best] = 0
    return kept / kept.sum()


@pytest.mark.parametrize("answer", [as_hugging_face_does, ranks])
def test_any_of_the_tokens_that_tie_may_be_kept(answer):
    assert told("next_token", answer).status == "passed"


def test_numbers_worked_out_on_paper_may_be_floats():
    assert told("training_memory", lambda: (16.0, 7 * 16, 112 // 80 + 1, 14.0)).status == "passed"
    assert told("context_vector", lambda: [10.5, 42, 256.0]).status == "passed"
    assert told("context_vector", lambda: (9, 44, 313)).status == "passed"
    assert told("context_vector", lambda: torch.tensor([11.5, 35, 64 * 35 / 11.5])).status == "passed"
    assert told("context_vector", lambda: (11.5, 35, 256)).status == "passed"

    def with_slashes(n_ctx, d_model, d_ff, n_heads):
        a, b, c = 8 * n_ctx * d_model**2, 4 * n_ctx**2 * d_model, 4 * n_ctx * d_model * d_ff
        return float(a), float(b), float(c), (a + c) / (4 * n_ctx * d_model)

    assert told("flops_of_a_layer", with_slashes).status == "passed"


# A model of one's own


def reader(**wrong):
    """A model as a reader writes it, who returns what each module says, with some things wrong."""
    options = dict(scale=True, mask=True, halves=True, eps=True, silu=F.silu, swapped=False, share="neighbours")
    options |= dict(stages=True, add=True)
    o = options | wrong

    def llama(config, weights, ids):
        h, g, w = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
        stages = {}

        def linear(name, x):
            stages[name] = F.linear(x, weights[name + ".weight"])
            return stages[name]

        def norm(name, x):
            ms = (x * x).mean(-1, keepdim=True) + (config["rms_norm_eps"] if o["eps"] else 0)
            stages[name] = x / ms.sqrt() * weights[name + ".weight"]
            return stages[name]

        frequencies = torch.tensor([config["rope_theta"] ** (-2 * t / w) for t in range(w // 2)])
        angles = torch.arange(len(ids)).unsqueeze(1) * frequencies
        c, s = angles.cos(), angles.sin()

        def rotate(x):
            if o["halves"]:
                c2, s2 = torch.cat((c, c), -1), torch.cat((s, s), -1)
                return x * c2 + torch.cat((-x[..., w // 2 :], x[..., : w // 2]), -1) * s2
            y = torch.empty_like(x)
            y[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
            y[..., 1::2] = x[..., 0::2] * s + x[..., 1::2] * c
            return y

        x = stages["model.embed_tokens"] = weights["model.embed_tokens.weight"][ids]
        for i in range(config["num_hidden_layers"]):
            at = f"model.layers.{i}."
            y = norm(at + "input_layernorm", x)
            q, k, v = (
                linear(f"{at}self_attn.{n}_proj", y).view(len(ids), m, w) for n, m in (("q", h), ("k", g), ("v", g))
            )
            heads = []
            for head in range(h):
                shared = head // (h // g) if o["share"] == "neighbours" else head % g
                scores = rotate(q[:, head]) @ rotate(k[:, shared]).T
                if o["scale"]:
                    scores = scores / w**0.5
                if o["mask"]:
                    scores = scores + torch.full_like(scores, -math.inf).triu(1)
                heads.append(scores.softmax(-1) @ v[:, shared])
            y = stages[at + "self_attn"] = linear(at + "self_attn.o_proj", torch.cat(heads, -1))
            x = x + y if o["add"] else y
            y = norm(at + "post_attention_layernorm", x)
            gate, up = linear(at + "mlp.gate_proj", y), linear(at + "mlp.up_proj", y)
            inner = o["silu"](up) * gate if o["swapped"] else o["silu"](gate) * up
            y = stages[at + "mlp"] = linear(at + "mlp.down_proj", inner)
            x = x + y
        x = norm("model.norm", x)
        out = "model.embed_tokens" if config["tie_word_embeddings"] else "lm_head"
        logits = F.linear(x, weights[out + ".weight"])
        return stages | {"logits": logits} if o["stages"] else {"logits": logits}

    return llama


def test_a_model_may_return_its_activations_or_only_its_logits():
    for answer in (reader(), reader(stages=False)):
        assert told("real_weights", answer).status == "passed"


def test_logits_alone_are_refused():
    result = told("real_weights", lambda *case: reader()(*case)["logits"])
    assert result.status == "failed" and "a dictionary with a tensor `logits` is needed" in result.message


def test_logits_that_are_nan_are_located():
    answer = reader(silu=lambda x: x * math.nan)
    assert "is `model.layers.0.mlp.down_proj`" in (message := told("real_weights", answer).message)
    assert "It contains NaN" in message


def test_a_dictionary_may_hold_anything_else_beside_the_logits():
    def with_notes(config, weights, ids):
        return reader()(config, weights, ids) | {"model.layers.0.mlp": None, "scores": torch.zeros(3), "note": "mine"}

    assert told("real_weights", with_notes).status == "passed"


@pytest.mark.parametrize(
    ("wrong", "mistake"),
    [
        (dict(scale=False), "no_scale"),
        (dict(mask=False), "no_mask"),
        (dict(halves=False), "neighbours_paired"),
        (dict(eps=False), "no_eps"),
        (dict(silu=F.relu), "relu_gate"),
        (dict(swapped=True), "gate_and_up_exchanged"),
        (dict(share="in turn"), "heads_take_turns"),
    ],
)
def test_the_part_that_is_off_is_named(wrong, mistake):
    assert told("real_weights", reader(**wrong)).mistake == mistake


@pytest.mark.parametrize("stages", [True, False])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (dict(scale=False, halves=False), ["not divided by the root of head_dim", "interleaved"]),
        (dict(mask=False, share="in turn"), ["sees the tokens after it", "in turn"]),
        (dict(silu=F.gelu, swapped=True), ["GELU instead of SiLU", "up_proj instead of gate_proj"]),
    ],
)
def test_two_parts_that_are_off_are_both_named(wrong, words, stages):
    result = told("real_weights", reader(**wrong, stages=stages))
    assert result.status == "failed" and all(each in result.message for each in words), result
    first = "mlp.down_proj" if "swapped" in wrong else "self_attn.o_proj"
    where = f"is `model.layers.0.{first}`" if stages else "your logits are what we get if"
    assert where in result.message


def test_of_many_wrong_parts_the_first_is_told():
    result = told("real_weights", reader(eps=False, mask=False, swapped=True, silu=F.tanh))
    assert "`model.layers.0.input_layernorm`; `model.embed_tokens` before it is right" in result.message
    assert "leaves out eps" in result.message


def test_an_unknown_mistake_is_at_least_located():
    result = told("real_weights", reader(silu=torch.tanh))
    assert "`model.layers.0.mlp.down_proj`; `model.layers.0.mlp.up_proj` before it is right" in result.message
    result = told("real_weights", reader(silu=torch.tanh, stages=False))
    assert "return some activations beside the logits" in result.message


def test_a_missing_sum_is_told_at_the_norm_that_reads_it():
    result = told("real_weights", reader(add=False))
    assert "`model.layers.0.post_attention_layernorm`" in result.message and "is not added to x" in result.message


def test_matrices_that_are_not_transposed_are_located():
    def llama(config, weights, ids):
        return reader()(config, {name: w.T if "o_proj" in name else w for name, w in weights.items()}, ids)

    assert "raises RuntimeError" in told("real_weights", llama).message


def config_and_weights(folder, **more):
    """A checkpoint in Hugging Face's layout as files, from a case of the exercise."""
    case = load_master(REAL_WEIGHTS).cases("hidden_cases", seed=5)[more.pop("case", 0)]
    fields = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu"}
    fields |= {"max_position_embeddings": 32, "attention_bias": False, "mlp_bias": False}
    (folder / "config.json").write_text(json.dumps(fields | case["config"]))
    save_file({name: w.contiguous() for name, w in case["weights"].items()}, folder / "model.safetensors")
    return case


@pytest.mark.syllabus("UCL-28", "IITD-43")
@pytest.mark.parametrize("case", [0, 1, 2])
def test_the_solution_gives_the_logits_of_the_package(tmp_path, case):
    """The layout in the statement is the one that is released: the package, tested against Hugging Face's, agrees."""
    case = config_and_weights(tmp_path, case=case)
    with torch.no_grad():
        expected = load(tmp_path).model(case["ids"][None])[0]
    for name, answer in load_master(REAL_WEIGHTS).right().items():
        found = answer(**case)["logits"]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4, msg=name)


# Wrong answers


def both_ends_padded(sentences, start, end, pad):
    padded = F.pad(F.pad(sentences, (1, 0), value=start), (0, 1), value=end)
    return padded[:, :-1], padded[:, 1:]


def sentences_rolled(sentences, start, end, pad):
    targets = torch.cat((sentences, torch.full((len(sentences), 1), pad)), 1)
    targets[torch.arange(len(sentences)), (sentences != pad).sum(1) - 1] = end
    return F.pad(sentences, (1, 0), value=start), targets


@pytest.mark.parametrize(
    ("answer", "mistake"), [(both_ends_padded, "end_in_the_last_column"), (sentences_rolled, "end_over_the_last_word")]
)
def test_a_mistake_in_the_shift_is_named(answer, mistake):
    assert told("shift_right", answer).mistake == mistake


def one_softmax_too_few(x, source, is_word, w_query, w_key, w_value):
    scores = x @ w_query @ (source @ w_key).mT / w_key.shape[1] ** 0.5
    return scores.masked_fill(~is_word[:, None], 0) @ source @ w_value, scores


def test_scores_without_a_softmax_do_not_pass():
    assert told("cross_attention", one_softmax_too_few).status in ("failed", "mistake")


def source_zeroed(x, source, is_word, w_query, w_key, w_value):
    source = source * is_word[..., None]
    weights = (x @ w_query @ (source @ w_key).mT / w_key.shape[1] ** 0.5).softmax(-1)
    return weights @ (source @ w_value), weights


def test_zeros_for_padding_still_get_weight():
    assert told("cross_attention", source_zeroed).status == "mistake"


def no_values(x, source, is_word, w_query, w_key, w_value):
    scores = x @ w_query @ (source @ w_key).mT / w_key.shape[1] ** 0.5
    weights = scores.masked_fill(~is_word.unsqueeze(1), -1e9).softmax(-1)
    return weights @ source, weights


def mask_of_rows(x, source, is_word, w_query, w_key, w_value):
    scores = x @ w_query @ (source @ w_key).mT / w_key.shape[1] ** 0.5
    weights = scores.masked_fill(is_word.unsqueeze(-1) == 0, -1e9).softmax(-1)
    return weights @ (source @ w_value), weights


@pytest.mark.parametrize(
    ("answer", "mistake"), [(no_values, "source_for_values"), (mask_of_rows, "low_scores_on_the_queries")]
)
def test_a_mistake_in_cross_attention_is_named(answer, mistake):
    assert told("cross_attention", answer).mistake == mistake


def renormalized(x, source, is_word, w_query, w_key, w_value):
    weights = (x @ w_query @ (source @ w_key).mT / w_key.shape[1] ** 0.5).exp() * is_word[:, None]
    weights = weights / weights.sum(-1, keepdim=True)
    return weights @ (source @ w_value), weights


def test_own_exponentials_are_tried_on_large_numbers():
    assert (
        "With large numbers in the source, your output is not finite" in told("cross_attention", renormalized).message
    )


def one_token(logits, start, end, target, max_new_tokens):
    after = logits.argmax(-1)
    return after[torch.tensor([start, *target[:-1]])].tolist(), [int(after[start])]


def test_a_list_that_is_too_short_is_shown():
    result = told("forced_and_free", one_token)
    assert result.status == "failed" and "expected" in result.example and "1 value instead of 2" in result.message


def test_a_wrong_count_is_shown_for_a_small_model():
    def without_embeddings(n_layers, d_model, d_ff, n_vocab, n_ctx):
        return 0, n_layers * 4 * d_model * (d_model + 1), 2 * n_layers * d_model * d_ff, 4 * d_model * n_layers

    assert "n_layers=2, d_model=3" in told("count_parameters", without_embeddings).example


def all_three_steps_wrong(logits, temperature, k, p):
    probabilities, order = (logits / temperature).softmax(0).sort(descending=True)
    kept = probabilities * (probabilities.cumsum(0) - probabilities < p)
    return kept / kept.sum()


def test_sorted_probabilities_are_told():
    assert "do you return them in sorted order?" in told("next_token", all_three_steps_wrong).message


def source_alone(depends, n_source):
    if depends.all():
        return "encoder"
    if torch.equal(depends, depends.new_ones(depends.shape).tril()):
        return "decoder"
    return "encoder-decoder" if depends[:, :n_source].all() else "none of these"


def test_the_entry_that_rules_a_type_out_is_told():
    message = told("type_of_model", source_alone).message
    assert "we change the entry in row 0 and column 5" in message


def test_an_experiment_may_be_told_with_other_numbers():
    def experiment(seed, loss=lambda h: h.square().mean(), conclusion="only plain loses it", drawn=nn.Tanh):
        torch.manual_seed(seed)
        table = torch.zeros(2, 2)
        for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
            layers = [nn.Sequential(nn.Linear(64, 64), drawn(), nn.Linear(64, 64)) for _ in range((2, 16)[column])]
            h = torch.randn(32, 64)
            for layer in layers:
                h = layer(h) + row * h
            loss(h).backward()
            table[row, column] = layers[0][0].weight.grad.norm() / layers[-1][0].weight.grad.norm()
        return table.numpy(), conclusion

    assert told("through_the_depth", lambda seed: experiment(seed, drawn=nn.ReLU)).status == "passed"
    hasty = told("through_the_depth", lambda seed: experiment(seed, drawn=nn.ReLU, conclusion="both lose it"))
    assert hasty.mistake == "conclusion_does_not_follow"
    assert told("through_the_depth", experiment).mistake == "no_activation"


def test_ratios_that_are_nan_are_not_right():
    result = told("through_the_depth", lambda seed: (torch.full((2, 2), math.nan), "only plain loses it"))
    assert result.status == "failed" and "some of your ratios are NaN" in result.message


def test_target_words_without_a_partner_count():
    def without_them(weights, sure, possible):
        found = F.one_hot(weights.argmax(1), weights.shape[1]).bool() & possible.any(1, keepdim=True)
        total = (found.sum() + sure.sum()).clamp(min=1)
        return (1 - ((found & sure).sum() + (found & possible).sum()) / total).item()

    assert told("alignment_error", without_them).mistake == "words_without_a_partner_left_out"


def written(logits, start, end, target, max_new_tokens, choose=lambda row: int(row.argmax())):
    forced = [choose(logits[token]) for token in [start, *target[:-1]]]
    free = [choose(logits[start])]
    while int(free[-1]) != end and len(free) < max_new_tokens:
        free.append(choose(logits[int(free[-1])]))
    return forced, free


def test_tokens_are_not_drawn_and_may_be_tensors():
    def nearly_greedy(row):
        return int(row.argmax()) if row.sort().values.diff()[-1] > 0.5 else int(row.argmin())

    def of(choose):
        return lambda *case: written(*case, choose=choose)

    assert told("forced_and_free", written).status == "passed"
    assert "your lists hold other tokens as well" in told("forced_and_free", of(nearly_greedy)).message
    assert told("forced_and_free", of(torch.argmax)).status == "passed"  # a tensor of one number will do for a number


def test_the_spelling_of_a_type_does_not_matter():
    solution = load_master(ROOT / "exercises" / "transformer" / "type_of_model").right()["type_of_model"]
    assert told("type_of_model", lambda *case: solution(*case).title().replace("-", "–")).status == "passed"


# What the check of real weights compares with


@pytest.mark.parametrize("options", [{}, {"hidden_size": 5, "kv_heads": 1, "tied": False, "layers": 3}])
def test_the_check_computes_what_the_solution_computes(options):
    master = load_master(REAL_WEIGHTS)
    parts = master.run()
    config, weights = parts["drawn"](torch.Generator().manual_seed(3), **options)
    case = config, weights, torch.tensor([2, 0, 5, 1])
    found, expected = parts["activations"](*case), parts["llama"](*case)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, msg=name)


def test_each_suspect_changes_the_logits():
    parts = load_master(REAL_WEIGHTS).run()
    for name in parts["SUSPECTS"]:
        changes = []
        for options in ({}, parts["UNTIED"]):
            config, weights = parts["drawn"](torch.Generator().manual_seed(3), **options)
            case = config, weights, torch.tensor([2, 0, 5, 1])
            right, wrong = (parts["activations"](*case, each)["logits"] for each in (set(), {name}))
            changes.append(not parts["close"](wrong, right))
        assert any(changes), name


@pytest.mark.parametrize("name", ["model.embed_tokens", "model.norm", "model.layers.1.mlp.up_proj"])
def test_whatever_is_returned_beside_the_logits_is_compared(name):
    def llama(config, weights, ids):
        found = reader(halves=False, scale=False)(config, weights, ids)
        return {"logits": found["logits"]} | ({name: 1 + found[name]} if name in found else {})

    assert f"the first of your activations that differs is `{name}`" in told("real_weights", llama).message


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((10, 24, 64), ["three quarters of the words", "entries is that of the solid curve"]),
        ((6, 60, 6400), ["for the solid curve is the one", "for the dashed curve is too large", "not to its square"]),
        ((10, 20, 128), ["curve and number of entries are too small. The hints"]),
        ((10, 160, 1024), ["curve and number of entries are too large. The hints"]),
        ((10, 20, 90), ["for the dashed curve is too small", "not to its root"]),
        ((9, 44, 1530), ["not to its square"]),
        ((9, 44, 141), ["not to its root"]),
        ((23, 31, 400), ["Your length for the solid curve and number of entries are too large"]),
        ((23, 31, 400), ["Your length for the dashed curve is too small"]),
        ((40, 10, 4), ["Your two lengths are exchanged", "only the factor"]),
    ],
)
def test_each_number_that_is_misread_from_the_curves_is_told(answer, words):
    result = told("context_vector", lambda: answer)
    assert result.status in ("failed", "mistake") and all(each in result.message for each in words), result
    assert not any(each in result.message for each in ("256", "dashed:", "solid:", "at three quarters", "follows"))
