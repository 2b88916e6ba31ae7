"""The 52 rows of Narang et al. (2021), table 1, as models: the baseline, and one modification of it in each row.

Source: Narang et al. (2021), "Do Transformer Modifications Transfer Across Implementations and Applications?"; GT-19.
"""

from llm_anatomy.models.modifications import (
    attention,
    embeddings,
    evolved,
    feedforward_and_norms,
    funnel,
    sharing,
    sparse,
    stacks,
)
from llm_anatomy.models.modifications.base import Modification

_MODULES = (attention, embeddings, evolved, feedforward_and_norms, funnel, sharing, sparse, stacks)

MODIFICATIONS: dict[str, Modification] = {
    row.name: row for row in sorted((row for module in _MODULES for row in module.ROWS), key=lambda row: row.row)
}
"""From the short name to the modification, in the order of the table."""
