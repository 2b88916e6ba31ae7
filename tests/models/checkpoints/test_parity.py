"""Every family against Hugging Face's model of the same weights: logits, files, generation, and faults that show."""

import copy
import json
from functools import cache

import pytest
import torch
from models.checkpoints.cases import CASES, NO_TOKENS, RELEASED, RELEASED_OTHERWISE, WrongRules, first_or_slow
from models.checkpoints.parity import difference, forget_longer_texts, inputs, our_logits, their_logits
from randomness import randomize
from safetensors.torch import load_file
from torch.overrides import TorchFunctionMode

from llm_anatomy.files import Record
from llm_anatomy.models.checkpoints import engine, families, load, save
from llm_anatomy.models.generation import generate
from llm_anatomy.models.presets import preset

NEW = 4
BOUND = 1e-4
ALL = pytest.mark.parametrize("name", CASES)


class Exact(TorchFunctionMode):
    """Where Hugging Face's code computes in float32 whatever the model's type is, float64 is taken."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        def wide(value):
            return torch.float64 if value is torch.float32 else value

        function = torch.Tensor.double if function is torch.Tensor.float else function
        return function(*map(wide, args), **{key: wide(value) for key, value in (kwargs or {}).items()})


def share_frequencies(ours, hf, n_tokens=17):
    """Both compute the frequencies of RoPE in float32, in another order; float64 would show the last bit of it. Those
    that depend on the length are shared for texts of ``n_tokens``."""
    mine = {}
    for block, window in zip(ours.stack.blocks, ours.stack.windows, strict=True) if hasattr(ours, "stack") else ():
        scheme = getattr(block.attention, "position", None)
        if hasattr(scheme, "frequencies"):
            for prefix in ("", "full_attention_" if window is None else "sliding_attention_"):
                mine.setdefault(prefix, scheme)
    for module in hf.modules():
        for prefix, scheme in mine.items():
            name = f"{prefix}inv_freq"
            if hasattr(module, name):
                at_start = getattr(module, name)
                torch.testing.assert_close(at_start.float(), scheme.frequencies, rtol=1e-6, atol=0)
                shared = scheme.frequencies.to(at_start.dtype)
                if scheme.by_length:
                    with Exact():
                        shared = scheme.scaling.at_length(scheme.d_rotary, scheme.base, torch.tensor(n_tokens))
                    theirs = at_their_length(module, prefix, n_tokens)
                    torch.testing.assert_close(theirs.double(), shared, rtol=1e-6, atol=0)
                    keep_frequencies(module, prefix)
                setattr(module, name, shared)


def at_their_length(module, prefix, n_tokens):
    """The frequencies that their module computes for a text of this length."""
    kind = prefix.removesuffix("_")
    module(torch.zeros(1, 1), torch.tensor([[n_tokens - 1]]), *[kind] * bool(kind))
    return getattr(module, f"{prefix}inv_freq")


def keep_frequencies(module, prefix):
    """From now on, those that the module has, for any length."""
    if prefix:
        module.rope_type = module.rope_type | {prefix.removesuffix("_"): "default"}
    else:
        module.rope_type = "default"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Their model of a case, the folder where they have saved it, and what we load from there; made once."""
    folders = tmp_path_factory.mktemp("theirs")

    @cache
    def of(name):
        hf, folder = randomize(CASES[name].hf()).eval(), folders / str(len(list(folders.iterdir())))
        hf.save_pretrained(folder)
        return hf, folder, load(folder)

    return of


@pytest.fixture(scope="module")
def expected(made):
    """The inputs of a case, and their logits."""

    @cache
    @torch.no_grad()
    def of(name):
        hf, _, ours = made(name)
        return [(given, mask, their_logits(hf, given, mask)) for given, mask in inputs(ours.config)]

    return of


@pytest.mark.syllabus("UCL-24", "UCL-26", "UCL-28", "UCL-31", "IITD-42", "IITD-43", "IITD-44", "IITD-45")
@pytest.mark.syllabus("GT-11", "GT-12", "GT-43", "GT-44", "CMU-34")
@ALL
def test_logits_equal_theirs(name, made, record_property):
    hf, folder, _ = made(name)
    ours = load(folder, dtype=torch.float64)
    assert ours.family == CASES[name].family and {p.dtype for p in ours.model.parameters()} == {torch.float64}
    hf = type(hf).from_pretrained(folder, dtype=torch.float64)
    CASES[name].exact(hf)
    share_frequencies(ours.model, hf)
    with Exact():
        found = difference(ours.model, hf)
    record_property(name, found)
    print(f"{name}: {found:.1e}")
    assert found <= 1e-9


def apart(model, expected):
    """The largest difference from their logits, of all tokens that are none of padding."""
    with torch.no_grad():
        return max((our_logits(model, *one) - theirs)[one[1]].abs().max().item() for *one, theirs in expected)


@ALL
def test_logits_in_float32_equal_theirs(name, made, expected):
    model = made(name)[2].model
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert apart(model, expected(name)) <= BOUND


@ALL
def test_files_go_round_bit_for_bit(name, made, expected, tmp_path):
    hf, folder, ours = made(name)
    save(ours, tmp_path / "ours")
    before, after = load_file(folder / "model.safetensors"), load_file(tmp_path / "ours" / "model.safetensors")
    assert before.keys() == after.keys()
    for key, tensor in before.items():
        assert tensor.dtype == after[key].dtype and torch.equal(tensor, after[key]), key
    read = type(hf).from_pretrained(tmp_path / "ours").eval()
    given, attention_mask, logits = expected(name)[-1]
    with torch.no_grad():
        assert torch.equal(their_logits(read, given, attention_mask), logits)
    fields = [json.loads((f / "config.json").read_text()) for f in (folder, tmp_path / "ours")]
    differ = {k for k in fields[0] if fields[0][k] is not None and fields[0][k] != fields[1].get(k)}
    assert differ <= {"transformers_version", "tie_word_embeddings", "rope_parameters", "attn_config", "architectures"}


WRITES = [name for name in CASES if families()[CASES[name].family].fixed.get("kind") != "encoder"]


@pytest.mark.parametrize("name", first_or_slow(WRITES, "roformer, left to right", "llama, dynamic"))
def test_greedy_generation_is_theirs_token_for_token(name, made):
    hf, _, ours = made(name)
    if ours.config.kind == "encoder":
        return
    given, attention_mask = list(inputs(ours.config))[-1]
    hf.generation_config.update(**NO_TOKENS | dict(pad_token_id=0, decoder_start_token_id=0))
    asked = dict(max_new_tokens=NEW, do_sample=False, use_cache=CASES[name].their_cache)
    forget_longer_texts(hf)
    if "source" in given:
        found = hf.generate(input_ids=given["source"], attention_mask=given["here"].long(), **asked)[:, 1:]
        sources = [row[here].tolist() for row, here in zip(given["source"], given["here"], strict=True)]
        written = generate(ours.model, [[0]] * len(sources), sources=sources, max_new_tokens=NEW)
    else:
        found = hf.generate(input_ids=given["ids"], attention_mask=attention_mask.long(), **asked)[
            :, given["ids"].shape[1] :
        ]
        prompts = [row[here].tolist() for row, here in zip(given["ids"], attention_mask, strict=True)]
        written = generate(ours.model, prompts, max_new_tokens=NEW)
    assert written.ids == found.tolist()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.faults])
def test_a_planted_fault_is_seen(name, made, expected, monkeypatch):
    _, folder, ours = made(name)
    for fault, change in CASES[name].faults.items():
        if isinstance(change, WrongRules):
            wrong = families() | {CASES[name].family: change(CASES[name].family)}
            with monkeypatch.context() as patch:
                patch.setattr(engine, "families", lambda wrong=wrong: wrong)
                model = load(folder).model
        elif isinstance(change, dict):
            model = type(ours.model)(ours.config.of(ours.config.changed() | change)).eval()
            model.load_state_dict(ours.model.state_dict())
        else:
            model = copy.deepcopy(ours.model)
            change(model)
        found = apart(model, expected(name))
        print(f"{name}, {fault}: {found:.1e}")
        assert found > 10 * BOUND, fault


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.refused])
def test_what_is_not_supported_is_refused_by_name(name, made, tmp_path):
    _, folder, _ = made(name)
    for file in folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "config.json").unlink()
    for change in CASES[name].refused:
        fields = json.loads((folder / "config.json").read_text()) | change
        (tmp_path / "config.json").write_text(json.dumps(fields))
        with pytest.raises(ValueError, match=f"config.json, key '({'|'.join(change)})'"):
            load(tmp_path)


def test_every_family_has_a_case():
    assert {case.family for case in CASES.values()} == set(families())
    for family in families():
        mine = [case for case in CASES.values() if case.family == family]
        assert any(case.faults for case in mine), f"{family} has no fault that must be seen"


def test_a_released_config_is_that_of_the_lectures():
    for name, (family, fields) in RELEASED.items():
        found = families()[family].config(Record("config.json", fields))
        differ = found.difference(preset(name))
        differ = {field: values for field, values in differ.items() if field != "tie_embeddings" or family[-2:] != "t5"}
        assert differ == RELEASED_OTHERWISE.get(name, {}), name
