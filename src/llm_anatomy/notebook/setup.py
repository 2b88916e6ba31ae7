"""Set-up that every chapter runs first: no library warnings, four decimals, the book's style."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

NOISY = r"(torch|matplotlib|numpy|ipywidgets|traitlets|ipykernel|IPython|jupyter_client)\b"


@contextmanager
def explained() -> Iterator[None]:
    """Say how to get what figures and widgets need, where it is missing.

    Raises:
        ImportError: in place of one that names a package only.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in (
            "matplotlib",
            "IPython",
            "ipywidgets",
            "anywidget",
            "traitlets",
        ):
            raise
        raise ImportError(
            f"{error.name} is not installed: figures and widgets need the extra notebook, "
            "pip install 'llm_anatomy[notebook]'"
        ) from None


def setup() -> None:
    """Make outputs quiet and comparable; prints nothing, and a second call changes nothing.

    Libraries' warnings about their own code are silenced, since they differ between versions; warnings about the code
    of the notebook are still shown. Tensors print with four decimals and no powers of ten.
    """
    with explained():
        import matplotlib

        from llm_anatomy.notebook.figures import STYLE

    warnings.filterwarnings("ignore", module=NOISY)
    torch.set_printoptions(precision=4, sci_mode=False)
    matplotlib.rcParams.update(STYLE)
