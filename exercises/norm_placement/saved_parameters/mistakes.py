def _saved(n_layers, d_model, d_ff, gated, placement, norms=None, feedforward=None, attention=None):
    norms = (2 * n_layers + (placement == "pre")) * d_model if norms is None else norms
    feedforward = n_layers * ((1 + gated) * d_ff + d_model) if feedforward is None else feedforward
    return norms, feedforward, 4 * n_layers * d_model if attention is None else attention


def final_norm_forgotten(n_layers, d_model, d_ff, gated, placement):
    """Your first number lacks the norm after the last layer, which a pre-norm model has."""
    return _saved(n_layers, d_model, d_ff, gated, placement, norms=2 * n_layers * d_model)


def final_norm_in_post_norm(n_layers, d_model, d_ff, gated, placement):
    """Your first number is right for pre-norm, but it counts a norm after the last layer in post-norm as well."""
    return _saved(n_layers, d_model, d_ff, gated, placement, norms=(2 * n_layers + 1) * d_model)


def final_norm_exchanged(n_layers, d_model, d_ff, gated, placement):
    """You count the norm after the last layer in post-norm, where the last sublayer ends with a norm already, and not
    in pre-norm."""
    return _saved(n_layers, d_model, d_ff, gated, placement, norms=(2 * n_layers + (placement == "post")) * d_model)


def final_norm_in_each_layer(n_layers, d_model, d_ff, gated, placement):
    """Your first number counts three norms for each layer of a pre-norm model. The third one stands only once, after
    the last layer."""
    return _saved(n_layers, d_model, d_ff, gated, placement, norms=n_layers * (2 + (placement == "pre")) * d_model)


def one_norm_for_each_layer(n_layers, d_model, d_ff, gated, placement):
    """Your first number counts one norm for each layer. There are two, one for attention and one for the feed-forward
    layer."""
    return _saved(n_layers, d_model, d_ff, gated, placement, norms=(n_layers + (placement == "pre")) * d_model)


def all_parameters_of_the_norms(n_layers, d_model, d_ff, gated, placement):
    """Your first number counts gains and biases. RMSNorm keeps the gain."""
    return _saved(n_layers, d_model, d_ff, gated, placement, norms=2 * (2 * n_layers + (placement == "pre")) * d_model)


def one_bias_for_each_norm(n_layers, d_model, d_ff, gated, placement):
    """Your first number is the number of norms. Each of them loses a bias for every feature."""
    return _saved(n_layers, d_model, d_ff, gated, placement, norms=2 * n_layers + (placement == "pre"))


def gate_not_counted(n_layers, d_model, d_ff, gated, placement):
    """Your second number leaves out the bias of the gate's matrix, in a gated layer."""
    return _saved(n_layers, d_model, d_ff, gated, placement, feedforward=n_layers * (d_ff + d_model))


def gate_doubles_everything(n_layers, d_model, d_ff, gated, placement):
    """Your second number doubles both biases if the layer is gated. The gate adds one matrix, from `d_model` to
    `d_ff`."""
    return _saved(n_layers, d_model, d_ff, gated, placement, feedforward=(1 + gated) * n_layers * (d_ff + d_model))


def gate_with_the_other_width(n_layers, d_model, d_ff, gated, placement):
    """In a gated layer, your second number counts `d_model` numbers for the gate's bias. How many outputs has its
    matrix?"""
    return _saved(n_layers, d_model, d_ff, gated, placement, feedforward=n_layers * (d_ff + (1 + gated) * d_model))


def always_gated(n_layers, d_model, d_ff, gated, placement):
    """Your second number counts a gate in every model. Look at `gated`."""
    return _saved(n_layers, d_model, d_ff, gated, placement, feedforward=n_layers * (2 * d_ff + d_model))


def second_bias_missing(n_layers, d_model, d_ff, gated, placement):
    """Your second number leaves out the bias of the matrix that leads back to `d_model` features."""
    return _saved(n_layers, d_model, d_ff, gated, placement, feedforward=n_layers * (1 + gated) * d_ff)


def weights_for_biases(n_layers, d_model, d_ff, gated, placement):
    """Your second number counts weights. A bias has one number for each output of its matrix."""
    return _saved(n_layers, d_model, d_ff, gated, placement, feedforward=n_layers * (2 + gated) * d_ff * d_model)


def weights_of_attention(n_layers, d_model, d_ff, gated, placement):
    """Your third number counts weights. A bias has one number for each output of its matrix."""
    return _saved(n_layers, d_model, d_ff, gated, placement, attention=4 * n_layers * d_model**2)


def three_projections(n_layers, d_model, d_ff, gated, placement):
    """Your third number counts three biases for each layer. The output of attention has one, too."""
    return _saved(n_layers, d_model, d_ff, gated, placement, attention=3 * n_layers * d_model)


def one_projection(n_layers, d_model, d_ff, gated, placement):
    """Your third number counts one bias for each layer. Attention has four matrices."""
    return _saved(n_layers, d_model, d_ff, gated, placement, attention=n_layers * d_model)


def one_layer(n_layers, d_model, d_ff, gated, placement):
    """Your second and third numbers are those of a single layer."""
    return _saved(
        n_layers, d_model, d_ff, gated, placement, feedforward=(1 + gated) * d_ff + d_model, attention=4 * d_model
    )


def one_layer_in_all_three(n_layers, d_model, d_ff, gated, placement):
    """Your numbers are those of a model with a single layer."""
    return _saved(1, d_model, d_ff, gated, placement)


def attention_first(n_layers, d_model, d_ff, gated, placement):
    """Your second and third numbers are exchanged. Attention comes last."""
    norms, feedforward, attention = _saved(n_layers, d_model, d_ff, gated, placement)
    return norms, attention, feedforward


def weights_for_all_biases(n_layers, d_model, d_ff, gated, placement):
    """Your second and third numbers count weights. A bias has one number for each output of its matrix."""
    feedforward = n_layers * (2 + gated) * d_ff * d_model
    return _saved(
        n_layers, d_model, d_ff, gated, placement, feedforward=feedforward, attention=4 * n_layers * d_model**2
    )


def hidden_width_for_each_bias(n_layers, d_model, d_ff, gated, placement):
    """Your second number counts `d_ff` numbers for every bias. How many outputs has the matrix that leads back?"""
    return _saved(n_layers, d_model, d_ff, gated, placement, feedforward=n_layers * (2 + gated) * d_ff)


def one_bias_too_many(n_layers, d_model, d_ff, gated, placement):
    """Your second number counts one bias with `d_ff` numbers too many in each layer. There is one for each matrix to
    `d_ff` features, and one with `d_model` numbers for the matrix that leads back."""
    feedforward = n_layers * ((2 + gated) * d_ff + d_model)
    return _saved(n_layers, d_model, d_ff, gated, placement, feedforward=feedforward)


def gate_for_no_gate(n_layers, d_model, d_ff, gated, placement):
    """Your second number counts the gate in a layer without one, and leaves it out in a gated layer."""
    return _saved(n_layers, d_model, d_ff, gated, placement, feedforward=n_layers * ((2 - gated) * d_ff + d_model))
