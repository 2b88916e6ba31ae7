"""What the book's notebooks import: set-up, figures, drawings, widgets, predictions and checks.

Figures, drawings, predictions and widgets are imported at their first use, so that an exercise, which needs only
``check``, starts sooner.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from llm_anatomy.notebook.checks import check
from llm_anatomy.notebook.setup import explained, setup

if TYPE_CHECKING:
    from llm_anatomy.notebook.block_diagrams import block_diagram
    from llm_anatomy.notebook.drawings import DataFlow
    from llm_anatomy.notebook.figures import attention_map, colours, figure, glue, signed_map, source, weights_map
    from llm_anatomy.notebook.predictions import Estimate, Prediction
    from llm_anatomy.notebook.widgets import (
        AblationExplorer,
        ActivationExplorer,
        ArchitectureTable,
        ArenaReplay,
        AttentionExplorer,
        BleuMatches,
        BucketExplorer,
        BudgetToConfig,
        CacheCalculator,
        CostCalculator,
        CounterAndSinusoids,
        CrossAttentionExplorer,
        DataMixture,
        DecayExplorer,
        DecodingTimeline,
        EmbeddingPlane,
        EncodingExplorer,
        ExpertLoad,
        FlowExplorer,
        GateSurface,
        GradientByLayer,
        GradientThroughTime,
        HeadsExplorer,
        HeadSharing,
        LSTMGates,
        MergeStepper,
        ModelTimeline,
        NormalizedAxes,
        NormalizedVector,
        OptimizerPaths,
        PoolGrowth,
        PromptAssembly,
        RankComparison,
        Roofline,
        RotorExplorer,
        RougeL,
        ScalingExplorer,
        ScheduleDesigner,
        SchemeExplorer,
        ShrinkingBatch,
        SlopesExplorer,
        SoftDictionary,
        SpikeReplay,
        StabilityMap,
        TermMixer,
        TieModel,
        TokenizerComparison,
        TransformerExplorer,
        VocabularyTradeOff,
    )

__all__ = [
    "AblationExplorer",
    "ActivationExplorer",
    "ArchitectureTable",
    "ArenaReplay",
    "AttentionExplorer",
    "BleuMatches",
    "BucketExplorer",
    "BudgetToConfig",
    "CacheCalculator",
    "CostCalculator",
    "CounterAndSinusoids",
    "CrossAttentionExplorer",
    "DataFlow",
    "DataMixture",
    "DecayExplorer",
    "DecodingTimeline",
    "EmbeddingPlane",
    "EncodingExplorer",
    "Estimate",
    "ExpertLoad",
    "FlowExplorer",
    "GateSurface",
    "GradientByLayer",
    "GradientThroughTime",
    "HeadSharing",
    "HeadsExplorer",
    "LSTMGates",
    "MergeStepper",
    "ModelTimeline",
    "NormalizedAxes",
    "NormalizedVector",
    "OptimizerPaths",
    "PoolGrowth",
    "Prediction",
    "PromptAssembly",
    "RankComparison",
    "Roofline",
    "RotorExplorer",
    "RougeL",
    "ScalingExplorer",
    "ScheduleDesigner",
    "SchemeExplorer",
    "ShrinkingBatch",
    "SlopesExplorer",
    "SoftDictionary",
    "SpikeReplay",
    "StabilityMap",
    "TermMixer",
    "TieModel",
    "TokenizerComparison",
    "TransformerExplorer",
    "VocabularyTradeOff",
    "attention_map",
    "block_diagram",
    "check",
    "colours",
    "figure",
    "glue",
    "setup",
    "signed_map",
    "source",
    "weights_map",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        for home in ("figures", "predictions", "drawings", "block_diagrams", "widgets"):
            with explained():
                module = import_module(f"{__name__}.{home}")
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
