"""GGUF files: every architecture against the model that was converted, every type of tensors, and wrong files."""

import struct
import sys
from dataclasses import replace

import gguf
import numpy as np
import pytest
import torch
from models.checkpoints.cases import LLAMA3_ROPE, NO_TOKENS, YARN_ROPE, decoder, gpt2, llama
from models.checkpoints.gguf_writer import Kind, write_gguf
from models.checkpoints.parity import difference
from randomness import randomize
from transformers.integrations.gguf.dequant import dequantize as their_dequantize
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from llm_anatomy import __main__ as command
from llm_anatomy.models.checkpoints import gguf_files, load
from llm_anatomy.models.checkpoints.gguf_files import LLAMA3, QUANTIZED, Stored, read_gguf
from llm_anatomy.models.generation import generate

LINEAR_ROPE = dict(rope_type="linear", rope_theta=500.0, factor=4.0)
RELEASED_LLAMA3_ROPE = dict(rope_type="llama3", rope_theta=5e5, factor=8.0, **LLAMA3)
GEMMA2 = dict(query_pre_attn_scalar=10, attn_logit_softcapping=5.0, final_logit_softcapping=3.0, sliding_window=5)

MODELS = {
    "llama": llama,
    "llama, biases, tied": lambda: llama(attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "llama, linear": lambda: llama(LINEAR_ROPE),
    "llama, yarn": lambda: llama(YARN_ROPE),
    "llama 3.1": lambda: decoder("Llama", RELEASED_LLAMA3_ROPE, head_dim=64),
    "llama, older": lambda: decoder("Llama", head_dim=6),
    "mistral": lambda: decoder("Mistral", sliding_window=5),
    "mixtral": lambda: decoder("Mixtral", num_local_experts=3, num_experts_per_tok=2, sliding_window=None),
    "qwen2": lambda: decoder("Qwen2", head_dim=6, tie_word_embeddings=True),
    "qwen3": lambda: decoder("Qwen3"),
    "gemma": lambda: decoder("Gemma"),
    "gemma2": lambda: decoder("Gemma2", **GEMMA2),
    "gpt2": gpt2,
    "gpt2, own head": lambda: gpt2(tie_word_embeddings=False),
}


def ids(vocab, batch=2, tokens=17):
    return torch.randint(0, vocab, (batch, tokens), generator=torch.Generator().manual_seed(1))


def made(name, path, **options):
    hf = randomize(MODELS[name]()).eval()
    return hf, write_gguf(path / "model.gguf", hf, **options)


def theirs_from(path, hf):
    """Their model with the weights as their library dequantizes them."""
    hf.load_state_dict(load_gguf_checkpoint(path, return_tensors=True, model_to_load=hf)["tensors"], strict=False)
    hf.tie_weights()
    return hf


@pytest.mark.syllabus("GT-43")
@pytest.mark.parametrize("name", MODELS)
def test_logits_and_greedy_tokens_are_those_of_the_converted_model(name, tmp_path):
    hf, path = made(name, tmp_path)
    ours = load(path)
    assert ours.family == name.split(",")[0].split()[0]
    assert {parameter.dtype for parameter in ours.model.parameters()} == {torch.float32}
    assert difference(ours.model, hf) <= 1e-4
    assert ours.config.norm_eps == 1e-3  # and not the float32 next to it
    given = ids(hf.config.vocab_size, tokens=5)
    hf.generation_config.update(**NO_TOKENS | dict(pad_token_id=0))
    expected = hf.generate(given, max_new_tokens=12, do_sample=False)[:, 5:]
    assert generate(ours.model, given.tolist(), max_new_tokens=12).ids == expected.tolist()


@pytest.mark.parametrize("fault", ["_in_pairs", "_from_one", "_transposed"])
def test_a_change_that_is_left_out_is_seen(fault, tmp_path, monkeypatch):
    name = {"_in_pairs": "llama", "_from_one": "gemma", "_transposed": "gpt2"}[fault]
    hf, path = made(name, tmp_path)
    wrong = {
        key: value if value.change.__name__ != fault else replace(value, change=lambda part, fields: None)
        for key, value in gguf_files.ARCHITECTURES.items()
    }
    monkeypatch.setattr(gguf_files, "ARCHITECTURES", wrong)
    try:
        assert difference(load(path).model, hf) > 1e-3
    except ValueError as error:
        assert "of another shape" in str(error)


WIDE = dict(hidden_size=64, intermediate_size=96, head_dim=16)


@pytest.mark.parametrize(
    "name, kind",
    [
        *(("Llama", kind) for kind in ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")),
        *[("Qwen2", "Q8_0"), ("Qwen3", "Q4_1"), ("Gemma2", "BF16"), ("Gemma2", "Q5_0")],
    ],
)
def test_a_quantized_model_is_that_of_their_library(name, kind, tmp_path):
    """Their library does not read Gemma 2's scale of the scores from the file, but its model here is the same."""
    more = GEMMA2 | dict(query_pre_attn_scalar=16) if name == "Gemma2" else {}
    hf = randomize(decoder(name, **WIDE, **more)).eval()
    path = write_gguf(tmp_path / "model.gguf", hf, kind)
    theirs = theirs_from(path, hf)
    ours = load(path)
    plain = {"F16": torch.float16, "BF16": torch.bfloat16}
    assert {parameter.dtype for parameter in ours.model.parameters()} == {plain.get(kind, torch.float32)}
    assert difference(load(path, dtype=torch.float32).model, theirs) <= 1e-4


def blocks(kind, n_blocks, seed=0):
    """Random blocks of a kind. The bytes of their scales would seldom be sensible numbers: they are taken as given, and
    those that are none are compared as such."""
    n_bytes = gguf.GGML_QUANT_SIZES[Kind[kind]][1]
    return np.random.default_rng(seed).integers(0, 256, (n_blocks, n_bytes), np.uint8)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("kind", sorted({*QUANTIZED} - {"Q5_0", "Q5_1"}))
def test_every_kind_of_blocks_is_read_as_their_library_does(kind, tmp_path):
    of_block = gguf.GGML_QUANT_SIZES[Kind[kind]][0]
    raw = blocks(kind, 96)
    (tmp_path / "blocks").write_bytes(b"\0" * 32 + raw.tobytes())
    shape = (3, 32 * of_block)
    found = Stored(tmp_path / "blocks", "a", shape, "F32", kind, shape, 32).read(open)
    expected = their_dequantize(torch.from_numpy(raw), Kind[kind].value).reshape(shape)
    assert expected.isfinite().float().mean() > 0.5
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0, equal_nan=True)


@pytest.mark.parametrize("kind", ["Q5_0", "Q5_1"])
def test_blocks_of_five_bits_are_read_by_their_formula(kind, tmp_path):
    raw = blocks(kind, 8)
    raw[:, 1] &= 0b10111111  # a finite scale
    raw[:, 3] &= 0b10111111
    (tmp_path / "blocks").write_bytes(raw.tobytes())
    found = Stored(tmp_path / "blocks", "a", (2, 128), "F32", kind, (2, 128), 0).read(open).reshape(8, 32)
    begin = 2 if kind == "Q5_0" else 4
    for block, values in zip(raw, found, strict=True):
        scale, least = block[:4].view(np.float16).astype(np.float32)
        high = int.from_bytes(block[begin : begin + 4].tobytes(), "little")
        for i in range(32):
            nibble = block[begin + 4 + i % 16] >> (4 * (i // 16)) & 15
            number = int(nibble) + 16 * (high >> i & 1)
            assert values[i].item() == scale * (number - 16) if kind == "Q5_0" else scale * number + least


@pytest.mark.parametrize("kind, scales", {"Q4_K": (0, 4), "Q6_K": (208, 210)}.items())
def test_a_model_with_blocks_of_256_is_that_of_their_library(kind, scales, tmp_path):
    def quantize(tensor, to):
        if to == Kind.F32:
            return tensor
        raw = blocks(kind, tensor.size // 256)
        raw[:, slice(*scales)] = np.full((len(raw), (scales[1] - scales[0]) // 2), 1e-4, np.float16).view(np.uint8)
        return raw.reshape(len(tensor), -1)

    hf = randomize(decoder("Llama", hidden_size=256, intermediate_size=256, num_hidden_layers=1)).eval()
    path = write_gguf(tmp_path / "model.gguf", hf, kind, quantize=quantize)
    assert difference(load(path).model, theirs_from(path, hf)) <= 1e-4


def test_experts_of_a_quantized_file_are_cut_out(tmp_path):
    more = dict(num_local_experts=3, num_experts_per_tok=2, sliding_window=None)
    hf = randomize(decoder("Mixtral", **WIDE, **more)).eval()
    path = write_gguf(tmp_path / "model.gguf", hf, "Q8_0")
    with torch.no_grad():
        for parameter in hf.parameters():
            if parameter.ndim > 1:
                raw = gguf.quants.quantize(parameter.numpy(), Kind.Q8_0)
                parameter.copy_(torch.from_numpy(gguf.quants.dequantize(raw, Kind.Q8_0)))
    assert difference(load(path).model, hf) <= 1e-4
    name = "model.layers.1.block_sparse_moe.experts.2.w3.weight"
    whole = next(t for t in gguf.GGUFReader(path).tensors if t.name == "blk.1.ffn_up_exps.weight")
    expected = gguf.quants.dequantize(whole.data, whole.tensor_type)[2]
    assert np.array_equal(read_gguf(path).headers[name].read(open).numpy(), expected)


def test_gemma_2_27b_scales_its_scores_otherwise(tmp_path):
    sizes = dict(num_hidden_layers=46, hidden_size=24, num_attention_heads=4, head_dim=10)
    hf = randomize(decoder("Gemma2", **GEMMA2 | dict(query_pre_attn_scalar=6), **sizes), scale=0.05).eval()
    path = write_gguf(tmp_path / "model.gguf", hf)
    assert load(path).config.attention_scale == 6**-0.5
    assert difference(load(path).model, hf) <= 1e-4


# --- What is refused ---


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return made("llama", tmp_path_factory.mktemp("gguf"))[1]


def refused(path, match):
    with pytest.raises(ValueError, match=match) as caught:
        load(path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 700


METADATA = {
    "a setting that is not known": (lambda w: w.add_logit_scale(2.0), r"key 'llama.logit_scale': 2.0 is unknown"),
    "another width of values": (lambda w: w.add_value_length_mla(3), r"key 'llama.attention.value_length_mla'"),
    "a scaling of RoPE": (
        lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE),
        r"'longrope' is not supported; it must be 'none', 'linear' or 'yarn'",
    ),
    "one of several parts": (lambda w: w.add_uint16("split.count", 3), r"key 'split.count': the file is one of 3"),
    "an odd alignment": (lambda w: w.add_uint32("general.alignment", 7), r"key 'general.alignment': 7 must be"),
}


@pytest.mark.parametrize("case", METADATA)
def test_metadata_that_is_not_supported_is_refused_by_name(case, tmp_path):
    change, match = METADATA[case]
    _, path = made("llama", tmp_path, change=change)
    refused(path, match)


def test_an_architecture_that_is_not_supported_is_refused(tmp_path):
    gguf_file = gguf.GGUFWriter(tmp_path / "a.gguf", "rwkv6")
    gguf_file.add_block_count(2)
    gguf_file.write_header_to_file()
    gguf_file.write_kv_data_to_file()
    gguf_file.write_tensors_to_file()
    gguf_file.close()
    refused(tmp_path / "a.gguf", "'rwkv6' is not supported; it must be gemma, gemma2, gpt2, llama, qwen2 or qwen3")


def test_divisors_other_than_those_of_llama_3_are_refused(tmp_path):
    hf = randomize(llama(LLAMA3_ROPE)).eval()
    refused(write_gguf(tmp_path / "a.gguf", hf), "rope_freqs.weight holds divisors that are not those of Llama 3.1")


def test_a_file_that_is_missing_empty_or_another_is_refused(tmp_path, good):
    refused(tmp_path / "no.gguf", "no.gguf' does not exist")
    (tmp_path / "a.gguf").write_bytes(b"")
    refused(tmp_path / "a.gguf", "a.gguf is empty")
    (tmp_path / "a.gguf").write_bytes(b"PK" * 100)
    refused(tmp_path / "a.gguf", "a.gguf is no GGUF file: it does not begin with GGUF")
    for version in (1, 4, 3 << 24):
        (tmp_path / "a.gguf").write_bytes(b"GGUF" + struct.pack("<I", version) + good.read_bytes()[8:])
        refused(tmp_path / "a.gguf", f"version {version} of GGUF; it must be 2 or 3")


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path, good):
    whole = good.read_bytes()
    for end in (*range(5, 2000, 37), len(whole) // 2, len(whole) - 1):
        (tmp_path / "a.gguf").write_bytes(whole[:end])
        refused(tmp_path / "a.gguf", "a.gguf")


def test_counts_beyond_the_file_are_refused_at_once(tmp_path, good):
    """An array of 2**60 numbers is neither read nor allocated."""
    begin = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
    key = struct.pack("<Q", 1) + b"a"
    for value in (struct.pack("<IIQ", 9, 4, 2**60), struct.pack("<IIQ", 9, 8, 2**60), struct.pack("<IQ", 8, 2**60)):
        (tmp_path / "a.gguf").write_bytes(begin + key + value + b"\0" * 64)
        refused(tmp_path / "a.gguf", "its header does not end within the file")
    whole = good.read_bytes()
    for at in (8, 16):  # the numbers of tensors and of values
        (tmp_path / "a.gguf").write_bytes(whole[:at] + struct.pack("<Q", 2**60) + whole[at + 8 :])
        refused(tmp_path / "a.gguf", "a.gguf")


def test_any_bytes_are_loaded_or_refused_in_one_sentence(tmp_path, good):
    rng, whole = np.random.default_rng(0), good.read_bytes()
    loaded = 0
    for _ in range(120):
        data = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(0, 3000)] = rng.integers(0, 256)
        (tmp_path / "a.gguf").write_bytes(data)
        try:
            load(tmp_path / "a.gguf")
            loaded += 1
        except ValueError as error:
            assert "\n" not in str(error)
    assert loaded < 60


def test_nothing_is_read_before_all_is_checked(tmp_path, good, monkeypatch):
    def read(self, opened):
        raise AssertionError("a tensor was read")

    monkeypatch.setattr(Stored, "read", read)
    whole = good.read_bytes()
    (tmp_path / "a.gguf").write_bytes(whole.replace(b"blk.1.attn_v", b"blk.1.attn_w"))
    refused(tmp_path / "a.gguf", r"1 missing \(model.layers.1.self_attn.v_proj.weight .*1 unexpected \(blk.1.attn_w")
    (tmp_path / "a.gguf").write_bytes(whole.replace(b"blk.1.attn_v", b"blk.1.attn_k"))
    refused(tmp_path / "a.gguf", "the tensor blk.1.attn_k.weight occurs twice")


def test_a_kind_of_tensors_that_is_not_supported_is_refused(tmp_path):
    hf = randomize(decoder("Llama", **WIDE)).eval()
    _, path = hf, write_gguf(tmp_path / "a.gguf", hf, "Q8_0")
    name = b"blk.0.attn_q.weight"
    data = bytearray(path.read_bytes())
    at = data.index(name) + len(name) + 4 + 16
    assert data[at] == Kind.Q8_0
    data[at] = Kind.Q8_1
    path.write_bytes(data)
    refused(path, "blk.0.attn_q.weight has the type Q8_1; it must be F32, F16, BF16, Q4_0")
    data[at] = Kind.Q8_0
    data[at + 4] += 2
    path.write_bytes(data)
    refused(path, "blk.0.attn_q.weight begins at .*, no multiple of the alignment 32")
    data[at] = Kind.Q4_K
    data[at + 4] -= 2
    path.write_bytes(data)
    refused(path, "blk.0.attn_q.weight has rows of 64 numbers, no multiple of Q4_K's 256")


def test_a_factor_of_rope_is_linear_where_the_file_does_not_say(tmp_path):
    _, path = made("llama", tmp_path, change=lambda writer: writer.add_rope_scaling_factor(4.0))
    scaling = load(path).config.rope.scaling
    assert (scaling.type, scaling.factor) == ("linear", 4.0)


def test_a_folder_of_gguf_files_says_what_to_load(good):
    refused(good.parent, "holds no config.json; to load the file 'model.gguf' in it, give its path")


def test_without_the_package_one_sentence_says_what_to_install(good, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    refused(good, r"to read GGUF files, install gguf \(pip install 'llm_anatomy\[checkpoints\]'\)")


def test_the_command_says_so_too(tmp_path, capsys):
    assert command.main(["generate", str(tmp_path / "no.gguf"), "a"]) == 2
    assert capsys.readouterr().err.endswith("no.gguf' does not exist\n")


def test_a_tied_head_may_be_there_too(tmp_path):
    """GPT-2's files repeat the embedding as a head."""
    hf, path = made("gpt2, own head", tmp_path)
    assert not load(path).config.tie_embeddings
    assert load(made("gpt2", tmp_path)[1]).config.tie_embeddings
