def _sizes(shapes, d_head):
    n_vocab, d_model = shapes["model.embed_tokens.weight"]
    first = "model.layers.0."
    return {
        "n_vocab": n_vocab,
        "d_model": d_model,
        "n_layers": sum("input_layernorm" in name for name in shapes),
        "n_heads": shapes[first + "self_attn.q_proj.weight"][0] // d_head,
        "n_kv_heads": shapes[first + "self_attn.k_proj.weight"][0] // d_head,
        "d_ff": shapes[first + "mlp.gate_proj.weight"][0],
        "tie_embeddings": "lm_head.weight" not in shapes,
    }


def number_of_the_last_block(shapes, d_head):
    """You return the number of the last block. The blocks are counted from 0, so there is one more."""
    sizes = _sizes(shapes, d_head)
    return sizes | {"n_layers": sizes["n_layers"] - 1}


def blocks_in_the_order_of_strings(shapes, d_head):
    """You compare the numbers of the blocks as strings, and among strings "9" is larger than "10"."""
    last = max(name.split(".")[2] for name in shapes if name.startswith("model.layers."))
    return _sizes(shapes, d_head) | {"n_layers": int(last) + 1}


def tensors_of_all_blocks(shapes, d_head):
    """You count the tensors in the blocks. Each block has nine of them."""
    sizes = _sizes(shapes, d_head)
    return sizes | {"n_layers": 9 * sizes["n_layers"]}


def norms_counted(shapes, d_head):
    """You count the norms. Each block has two of them, and there is one after the last block."""
    return _sizes(shapes, d_head) | {"n_layers": sum("norm" in name for name in shapes)}


def heads_share_the_width(shapes, d_head):
    """You divide the width of the model by that of a head. All heads together need not be as wide as the model: look at
    the matrix of the queries."""
    sizes = _sizes(shapes, d_head)
    return sizes | {"n_heads": sizes["d_model"] // d_head}


def inputs_of_the_queries(shapes, d_head):
    """You read the heads off the second size of the matrices, which is that of the inputs. The first is that of the
    outputs."""
    sizes = _sizes(shapes, d_head)
    return sizes | dict.fromkeys(("n_heads", "n_kv_heads"), sizes["d_model"] // d_head)


def no_sharing(shapes, d_head):
    """You return as many key-value heads as query heads. What does the matrix of the keys say?"""
    sizes = _sizes(shapes, d_head)
    return sizes | {"n_kv_heads": sizes["n_heads"]}


def widths_of_all_heads(shapes, d_head):
    """Your numbers of heads are widths. Divide them by that of one head."""
    sizes = _sizes(shapes, d_head)
    return sizes | {name: sizes[name] * d_head for name in ("n_heads", "n_kv_heads")}


def width_of_all_key_value_heads(shapes, d_head):
    """Your number of key-value heads is a width. Divide it by that of one head."""
    sizes = _sizes(shapes, d_head)
    return sizes | {"n_kv_heads": sizes["n_kv_heads"] * d_head}


def inputs_of_the_keys(shapes, d_head):
    """You read the key-value heads off the second size of the matrix, which is that of the inputs. The first is that of
    the outputs."""
    sizes = _sizes(shapes, d_head)
    return sizes | {"n_kv_heads": sizes["d_model"] // d_head}


def group_for_key_value_heads(shapes, d_head):
    """Your number of key-value heads is that of the query heads that share one."""
    sizes = _sizes(shapes, d_head)
    return sizes | {"n_kv_heads": sizes["n_heads"] // sizes["n_kv_heads"]}


def feed_forward_turned_round(shapes, d_head):
    """Your `d_ff` is the width of the model. A matrix has the shape (outputs, inputs)."""
    sizes = _sizes(shapes, d_head)
    return sizes | {"d_ff": sizes["d_model"]}


def table_turned_round(shapes, d_head):
    """You have exchanged the two sizes of the embedding. It has a row for each token."""
    sizes = _sizes(shapes, d_head)
    return sizes | {"n_vocab": sizes["d_model"], "d_model": sizes["n_vocab"]}


def tied_turned_round(shapes, d_head):
    """Your `tie_embeddings` is the wrong way round. A tied model has no matrix of its own for the logits."""
    sizes = _sizes(shapes, d_head)
    return sizes | {"tie_embeddings": not sizes["tie_embeddings"]}


def always_tied(shapes, d_head):
    """Your `tie_embeddings` is always True. Is there a tensor for the logits?"""
    return _sizes(shapes, d_head) | {"tie_embeddings": True}


def never_tied(shapes, d_head):
    """Your `tie_embeddings` is always False. Is there a tensor for the logits?"""
    return _sizes(shapes, d_head) | {"tie_embeddings": False}


def both_feed_forward_matrices(shapes, d_head):
    """Your `d_ff` is twice as large as it should be: gate and up-projection have the same width, and it counts once."""
    sizes = _sizes(shapes, d_head)
    return sizes | {"d_ff": 2 * sizes["d_ff"]}
