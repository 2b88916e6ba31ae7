import torch
import torch.nn.functional as F


def _norm(z):
    return F.rms_norm(z, z.shape[-1:])


def _stack(x, weights):
    for w in weights:
        x = x + torch.relu(_norm(x) @ w)
    return x


def gain_before_the_norm(x, weights, gain, unembedding):
    """There is a norm now, but one that stands behind the gain, where it takes back part of what the gain does. The
    gain comes last, after the division."""
    return _norm(gain * _stack(x, weights)) @ unembedding


def gain_missing(x, weights, gain, unembedding):
    """The norm is there now, but its gain is gone, which was right."""
    return _norm(_stack(x, weights)) @ unembedding


def logits_normalized(x, weights, gain, unembedding):
    """You normalize the logits. The norm belongs before the product with the unembedding, over the features."""
    return _norm((gain * _stack(x, weights)) @ unembedding)


def norm_of_the_input(x, weights, gain, unembedding):
    """You normalize the input of the stack. Its size then no longer matters, but the stream still grows from layer to
    layer, up to the logits."""
    return (gain * _stack(_norm(x), weights)) @ unembedding


def norms_on_the_stream(x, weights, gain, unembedding):
    """You normalize the stream in every layer. That is a norm on the residual path, which was right as it was; only
    something after the last layer was missing."""
    for w in weights:
        x = _norm(x + torch.relu(_norm(x) @ w))
    return (gain * x) @ unembedding


def post_norm(x, weights, gain, unembedding):
    """Your norms stand on the residual stream now, in every layer, as in post-norm. The layers were right; only
    something after the last one was missing."""
    for w in weights:
        x = _norm(x + torch.relu(x @ w))
    return (gain * x) @ unembedding


def norm_before_the_last_layer(x, weights, gain, unembedding):
    """You normalize what the last layer reads, and return the logits of that. They should be those of the stream after
    the last layer."""
    return (gain * _norm(_stack(x, weights[:-1]))) @ unembedding


def gain_in_the_layers(x, weights, gain, unembedding):
    """The final norm is right, but you also use its gain inside the layers, whose norms have none."""
    for w in weights:
        x = x + torch.relu((gain * _norm(x)) @ w)
    return (gain * _norm(x)) @ unembedding


def gain_in_the_layers_alone(x, weights, gain, unembedding):
    """Your gain is used inside the layers. It belongs to the norm after the last layer, and their norms have none."""
    for w in weights:
        x = x + torch.relu((gain * _norm(x)) @ w)
    return _norm(x) @ unembedding


def no_residual(x, weights, gain, unembedding):
    """The norm is there now, but the residual connections are gone, which were right."""
    for w in weights:
        x = torch.relu(_norm(x) @ w)
    return (gain * _norm(x)) @ unembedding


def layer_norm(x, weights, gain, unembedding):
    """There is a norm in the right position now, but it subtracts the mean. All norms of this model are RMSNorm."""
    x = _stack(x, weights)
    return (gain * F.layer_norm(x, x.shape[-1:])) @ unembedding


def over_all_tokens(x, weights, gain, unembedding):
    """There is a norm in the right position now, but it takes one root mean square for all tokens. Each has its own."""
    x = _stack(x, weights)
    return (gain * F.rms_norm(x, x.shape)) @ unembedding


def length_of_one(x, weights, gain, unembedding):
    """Your final norm divides by the length of a token. RMSNorm divides by its root mean square."""
    return (gain * F.normalize(_stack(x, weights), dim=-1)) @ unembedding


def divided_by_the_root_of_the_depth(x, weights, gain, unembedding):
    """You divide by the root of the number of layers. That is a guess about the size of the stream; the norm measures
    it, token by token."""
    return (gain * _stack(x, weights)) @ unembedding / len(weights) ** 0.5


def added_to_the_stream(x, weights, gain, unembedding):
    """You add the norm to the stream. After the last layer the norm takes the place of the stream."""
    x = _stack(x, weights)
    return (gain * (x + _norm(x))) @ unembedding


def norms_on_the_stream_before_each_layer(x, weights, gain, unembedding):
    """You normalize the stream itself before each layer, and nothing after the last one. The layers were right as they
    were."""
    for w in weights:
        x = _norm(x)
        x = x + torch.relu(x @ w)
    return (gain * x) @ unembedding


def gain_twice(x, weights, gain, unembedding):
    """The norm is there now, but its gain is used twice: once in the norm and once after it."""
    return (gain * gain * _norm(_stack(x, weights))) @ unembedding


def over_the_tokens(x, weights, gain, unembedding):
    """There is a norm in the right position now, but its means run over the tokens. They run over the features of a
    token."""
    return (gain * _norm(_stack(x, weights).T).T) @ unembedding
