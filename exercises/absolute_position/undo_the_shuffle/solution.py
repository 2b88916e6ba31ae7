from llm_anatomy.shapes import Float, Int, Tensor


def undo_the_shuffle(
    outputs: Float[Tensor, "n_tokens d_model"], order: Int[Tensor, "n_tokens"]
) -> Float[Tensor, "n_tokens d_model"]:
    """The outputs for the text in its own order; row i of `outputs` belongs to token order[i]."""
    return outputs[order.argsort()]
