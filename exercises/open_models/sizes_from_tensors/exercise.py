import torch


def sizes_from_tensors(shapes: dict, d_head: int) -> dict:
    """Return the config of the model that has tensors of these shapes."""
    n_vocab, d_model = shapes["model.embed_tokens.weight"]
    first = "model.layers.0."
    return {
        "n_vocab": n_vocab,
        "d_model": d_model,
        "n_layers": len({name.split(".")[2] for name in shapes if name.startswith("model.layers.")}),
        "n_heads": shapes[first + "self_attn.q_proj.weight"][0] // d_head,
        "n_kv_heads": shapes[first + "self_attn.k_proj.weight"][0] // d_head,
        "d_ff": shapes[first + "mlp.gate_proj.weight"][0],
        "tie_embeddings": "lm_head.weight" not in shapes,
    }


def accepted_other_tensors(shapes, d_head):
    """Reads the sizes off other tensors, and takes the largest number of a block."""
    last = max(int(name.split(".")[2]) for name in shapes if ".mlp.up_proj" in name)
    block = f"model.layers.{last}."
    return {
        "tie_embeddings": shapes.get("lm_head.weight") is None,
        "d_model": shapes["model.norm.weight"][0],
        "n_layers": 1 + last,
        "n_heads": shapes[block + "self_attn.o_proj.weight"][1] / d_head,
        "n_kv_heads": shapes[block + "self_attn.v_proj.weight"][0] / d_head,
        "d_ff": shapes[block + "mlp.down_proj.weight"][-1],
        "n_vocab": max(shapes["model.embed_tokens.weight"][0], 1),
    }


def accepted_one_pass(shapes, d_head):
    """Goes through the tensors once."""
    found = {"n_layers": 0, "tie_embeddings": 1}
    for name, shape in shapes.items():
        part = name.removesuffix(".weight").rpartition(".")[2]
        if part == "input_layernorm":
            found["n_layers"] += 1
        elif part == "lm_head":
            found["tie_embeddings"] = 0
        elif part == "embed_tokens":
            found |= {"n_vocab": shape[0], "d_model": shape[1]}
        elif part in ("q_proj", "k_proj"):
            found["n_heads" if part == "q_proj" else "n_kv_heads"] = shape[0] // d_head
        elif part == "up_proj":
            found["d_ff"] = shape[0]
    return found


def _case(n_vocab, d_model, n_layers, n_heads, n_kv_heads, d_head, d_ff, tied, generator):
    shapes = {"model.embed_tokens.weight": (n_vocab, d_model), "model.norm.weight": (d_model,)}
    if not tied:
        shapes["lm_head.weight"] = (n_vocab, d_model)
    for i in range(n_layers):
        shapes |= {
            f"model.layers.{i}.self_attn.q_proj.weight": (n_heads * d_head, d_model),
            f"model.layers.{i}.self_attn.k_proj.weight": (n_kv_heads * d_head, d_model),
            f"model.layers.{i}.self_attn.v_proj.weight": (n_kv_heads * d_head, d_model),
            f"model.layers.{i}.self_attn.o_proj.weight": (d_model, n_heads * d_head),
            f"model.layers.{i}.mlp.gate_proj.weight": (d_ff, d_model),
            f"model.layers.{i}.mlp.up_proj.weight": (d_ff, d_model),
            f"model.layers.{i}.mlp.down_proj.weight": (d_model, d_ff),
            f"model.layers.{i}.input_layernorm.weight": (d_model,),
            f"model.layers.{i}.post_attention_layernorm.weight": (d_model,),
        }
    names = list(shapes)
    order = torch.randperm(len(names), generator=generator).tolist()
    return {"shapes": {names[i]: shapes[names[i]] for i in order}, "d_head": d_head}


def cases(generator):
    return [
        _case(50, 12, 2, 3, 1, 4, 20, False, generator),
        _case(49152, 576, 30, 9, 3, 64, 1536, True, generator),  # SmolLM2-135M
        _case(60, 8, 3, 5, 5, 4, 18, True, generator),  # heads that are wider together than the model
        _case(70, 48, 12, 6, 2, 4, 36, False, generator),  # heads that are narrower
    ]


def property_order(answer, generator):
    shapes = {
        "model.layers.0.mlp.down_proj.weight": (6, 11),
        "lm_head.weight": (30, 6),
        "model.layers.0.post_attention_layernorm.weight": (6,),
        "model.layers.0.self_attn.k_proj.weight": (4, 6),
        "model.embed_tokens.weight": (30, 6),
        "model.layers.0.self_attn.q_proj.weight": (8, 6),
        "model.layers.0.mlp.up_proj.weight": (11, 6),
        "model.layers.0.self_attn.o_proj.weight": (6, 8),
        "model.norm.weight": (6,),
        "model.layers.0.self_attn.v_proj.weight": (4, 6),
        "model.layers.0.input_layernorm.weight": (6,),
        "model.layers.0.mlp.gate_proj.weight": (11, 6),
    }
    one, two = (answer(given, 2) for given in (shapes, dict(reversed(shapes.items()))))
    assert one == two, "The order of the tensors should not matter. With your function it does."


def hidden_cases(generator):
    return [
        _case(90, 20, 11, 4, 2, 6, 44, True, generator),
        _case(100, 24, 4, 6, 3, 2, 52, False, generator),
        _case(33, 18, 13, 2, 1, 9, 30, False, generator),
    ]
