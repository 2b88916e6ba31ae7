"""Set-up that every chapter runs first: no library warnings, four decimals, the book's style."""

import warnings

import torch

NOISY = r"(torch|matplotlib|numpy|ipywidgets|traitlets|ipykernel|IPython|jupyter_client)\b"


def setup() -> None:
    """Make outputs quiet and comparable; prints nothing, and a second call changes nothing.

    Libraries' warnings about their own code are silenced, since they differ between versions; warnings about the code
    of the notebook are still shown. Tensors print with four decimals and no powers of ten.
    """
    import matplotlib

    from llm_anatomy.notebook.figures import STYLE

    warnings.filterwarnings("ignore", module=NOISY)
    torch.set_printoptions(precision=4, sci_mode=False)
    matplotlib.rcParams.update(STYLE)
