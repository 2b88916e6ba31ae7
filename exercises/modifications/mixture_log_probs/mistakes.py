import torch


def _weights(gate):
    return gate.softmax(-1)[:, :, None]


def logits_mixed(gate, logits):
    """You mix the logits and take one softmax, which is not a mixture any more. Mix the probabilities."""
    return (_weights(gate) * logits).sum(1).log_softmax(-1)


def logarithms_mixed(gate, logits):
    """You average the logarithms. The logarithm of a mean is not the mean of the logarithms."""
    return (_weights(gate) * logits.log_softmax(-1)).sum(1)


def weights_not_normalized(gate, logits):
    """Your weights are the numbers of the gate, without a softmax, as logarithms."""
    return (gate[:, :, None] + logits.log_softmax(-1)).logsumexp(1)


def equal_weights(gate, logits):
    """All your components have the same weight."""
    return logits.log_softmax(-1).logsumexp(1) - torch.tensor(float(gate.shape[1])).log()


def sum_of_probabilities(gate, logits):
    """Your weights are missing: you add the probabilities of all components."""
    return logits.log_softmax(-1).logsumexp(1)


def softmax_over_components(gate, logits):
    """Your softmax of the logits runs over the components. It should run over the tokens, in each component."""
    return (gate.log_softmax(-1)[:, :, None] + logits.log_softmax(1)).logsumexp(1)


def probabilities(gate, logits):
    """You return probabilities. Return their logarithms."""
    return (_weights(gate) * logits.softmax(-1)).sum(1)


def logarithm_of_small_numbers(gate, logits):
    """Where all is well, your numbers are right. But a probability that is too small for float32 becomes 0, and its
    logarithm minus infinity. Compute with logarithms throughout."""
    return (_weights(gate) * logits.softmax(-1)).sum(1).log()


def likeliest_component(gate, logits):
    """You take the component with the largest weight alone."""
    rows = torch.arange(len(gate))
    return logits.log_softmax(-1)[rows, gate.argmax(-1)]


def components_normalized_together(gate, logits):
    """You take one softmax over all components and tokens together. Each component has a softmax of its own."""
    every = (gate[:, :, None] + logits).flatten(1).log_softmax(-1)
    return every.unflatten(1, logits.shape[1:]).logsumexp(1)


def softmax_over_the_rows(gate, logits):
    """The softmax of your gate runs over the rows. The weights of one row sum to one."""
    return (gate.log_softmax(0)[:, :, None] + logits.log_softmax(-1)).logsumexp(1)
