"""Shape annotations: the names of jaxtyping if it is installed, and placeholders without effect if it is not.

``Float[Tensor, "batch tokens d_model"]`` tells the reader the shape, and the tests check it at run time with the import
hook of jaxtyping. Colab does not ship jaxtyping; there, the annotation has no effect and costs nothing.
"""

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:  # to a type checker, Float[Tensor, "batch tokens"] is a Tensor
    from typing import Annotated as Bool
    from typing import Annotated as Float
    from typing import Annotated as Int
else:
    try:
        from jaxtyping import Bool, Float, Int
    except ImportError:

        class _Inert:
            def __class_getitem__(cls, item):
                return item[0]

        Bool = Float = Int = _Inert

__all__ = ["Bool", "Float", "Int", "Tensor"]
