import torch


def drawn(generator, d_model, d_ff, dtype=torch.float32):
    shapes = {"gate.weight": (d_ff, d_model), "up.weight": (d_ff, d_model), "down.weight": (d_model, d_ff)}
    return {name: torch.randn(*shape, generator=generator).to(dtype) for name, shape in shapes.items()}


def cases(generator):
    return [{"weights": drawn(generator, *sizes)} for sizes in ((3, 5), (4, 2))]


def observe(returned, weights):
    """what the module makes of three rows of numbers"""
    assert isinstance(returned, torch.nn.Module), "a module is asked"
    down = weights["down.weight"]
    x = torch.linspace(-2, 2, 3 * len(down)).reshape(3, len(down)).to(down.dtype)
    return returned(x)


def property_names_of_parameters(answer, generator):
    names = sorted(answer(drawn(generator, 2, 6)).state_dict())
    assert names == ["down.weight", "gate.weight", "up.weight"], (
        f"The parameters of your module are called {names}. They should be called as in `weights`."
    )
