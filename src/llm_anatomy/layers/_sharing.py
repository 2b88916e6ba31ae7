"""One owner for each module that several parts of a model use."""

from functools import partial

import torch
from torch import nn


def _own_once(module: nn.Module, owned: set[nn.Module] | None = None) -> None:
    """Let the first part of ``module`` that holds a module own it, and every later part refer to it.

    A module with two owners has two names. ``torch.func.functional_call`` would put a borrowed tensor under both, and
    afterwards leave it in the model instead of the parameter; safetensors refuses a state dict that holds a tensor
    twice. Moving, copying and loading keep the parts together either way, since all of them refer to one module.
    """
    owned = set() if owned is None else owned
    for name, child in list(module._modules.items()):  # unlike named_children, with the second name of a child
        if child in owned and not isinstance(module, _CONTAINERS):
            _refer(module, name, child)
        elif child is not None and child not in owned:
            owned.add(child)
            _own_once(child, owned)


_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)  # what they run or list is what they own


def _refer(module: nn.Module, name: str, child: nn.Module) -> None:
    """Keep a child as a plain attribute, of which PyTorch takes no account. State dicts that repeat its tensors under
    this second name can still be loaded."""
    delattr(module, name)
    vars(module)[name] = child
    module.register_load_state_dict_pre_hook(partial(_take_repeated, name))


def _take_repeated(name, module, state_dict, prefix, _metadata, _strict, _missing, unexpected, errors) -> None:
    """Take repeated tensors out of a state dict, and report those that do not repeat what their owner has loaded."""
    loaded = vars(module)[name].state_dict()
    for key in [key for key in state_dict if key.startswith(f"{prefix}{name}.")]:
        repeated, own = state_dict.pop(key), loaded.get(key.removeprefix(f"{prefix}{name}."))
        if own is None:
            unexpected.append(key)
        elif not (own.is_meta or repeated.is_meta or torch.equal(repeated.to(own), own)):
            errors.append(f"{key} differs from the tensor of which it is the second name")
