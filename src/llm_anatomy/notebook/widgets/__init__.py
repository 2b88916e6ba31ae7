"""Widgets that work on the static page without a kernel, and in Jupyter and Colab with one."""

from llm_anatomy.notebook.widgets.ablation_explorer import AblationExplorer
from llm_anatomy.notebook.widgets.activation_explorer import ActivationExplorer
from llm_anatomy.notebook.widgets.architecture_table import ArchitectureTable
from llm_anatomy.notebook.widgets.arena_replay import ArenaReplay
from llm_anatomy.notebook.widgets.attention_explorer import AttentionExplorer
from llm_anatomy.notebook.widgets.base import Widget
from llm_anatomy.notebook.widgets.bleu_matches import BleuMatches
from llm_anatomy.notebook.widgets.bucket_explorer import BucketExplorer
from llm_anatomy.notebook.widgets.budget_to_config import BudgetToConfig
from llm_anatomy.notebook.widgets.cache_calculator import CacheCalculator
from llm_anatomy.notebook.widgets.controls import Choice, Point, Slider, Text, Tick
from llm_anatomy.notebook.widgets.cost_calculator import CostCalculator
from llm_anatomy.notebook.widgets.counter_and_sinusoids import CounterAndSinusoids
from llm_anatomy.notebook.widgets.cross_attention_explorer import CrossAttentionExplorer
from llm_anatomy.notebook.widgets.data_mixture import DataMixture
from llm_anatomy.notebook.widgets.decay_explorer import DecayExplorer
from llm_anatomy.notebook.widgets.decoding_timeline import DecodingTimeline
from llm_anatomy.notebook.widgets.embedding_plane import EmbeddingPlane
from llm_anatomy.notebook.widgets.encoding_explorer import EncodingExplorer
from llm_anatomy.notebook.widgets.expert_load import ExpertLoad
from llm_anatomy.notebook.widgets.flow_explorer import FlowExplorer
from llm_anatomy.notebook.widgets.gate_surface import GateSurface
from llm_anatomy.notebook.widgets.gradient_by_layer import GradientByLayer
from llm_anatomy.notebook.widgets.gradient_through_time import GradientThroughTime
from llm_anatomy.notebook.widgets.head_sharing import HeadSharing
from llm_anatomy.notebook.widgets.heads_explorer import HeadsExplorer
from llm_anatomy.notebook.widgets.lstm_gates import LSTMGates
from llm_anatomy.notebook.widgets.merge_stepper import MergeStepper
from llm_anatomy.notebook.widgets.model_timeline import ModelTimeline
from llm_anatomy.notebook.widgets.normalized_axes import NormalizedAxes
from llm_anatomy.notebook.widgets.normalized_vector import NormalizedVector
from llm_anatomy.notebook.widgets.optimizer_paths import OptimizerPaths
from llm_anatomy.notebook.widgets.pool_growth import PoolGrowth
from llm_anatomy.notebook.widgets.prompt_assembly import PromptAssembly
from llm_anatomy.notebook.widgets.rank_comparison import RankComparison
from llm_anatomy.notebook.widgets.roofline import Roofline
from llm_anatomy.notebook.widgets.rotor_explorer import RotorExplorer
from llm_anatomy.notebook.widgets.rouge_l import RougeL
from llm_anatomy.notebook.widgets.scaling_explorer import ScalingExplorer
from llm_anatomy.notebook.widgets.schedule_designer import ScheduleDesigner
from llm_anatomy.notebook.widgets.scheme_explorer import SchemeExplorer
from llm_anatomy.notebook.widgets.shrinking_batch import ShrinkingBatch
from llm_anatomy.notebook.widgets.slopes_explorer import SlopesExplorer
from llm_anatomy.notebook.widgets.soft_dictionary import SoftDictionary
from llm_anatomy.notebook.widgets.spike_replay import SpikeReplay
from llm_anatomy.notebook.widgets.stability_map import StabilityMap
from llm_anatomy.notebook.widgets.term_mixer import TermMixer
from llm_anatomy.notebook.widgets.text import Encoder, Encoders, Merges
from llm_anatomy.notebook.widgets.tie_model import TieModel
from llm_anatomy.notebook.widgets.tokenizer_comparison import TokenizerComparison
from llm_anatomy.notebook.widgets.transformer_explorer import TransformerExplorer
from llm_anatomy.notebook.widgets.vocabulary_trade_off import VocabularyTradeOff

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
    "Choice",
    "CostCalculator",
    "CounterAndSinusoids",
    "CrossAttentionExplorer",
    "DataMixture",
    "DecayExplorer",
    "DecodingTimeline",
    "EmbeddingPlane",
    "Encoder",
    "Encoders",
    "EncodingExplorer",
    "ExpertLoad",
    "FlowExplorer",
    "GateSurface",
    "GradientByLayer",
    "GradientThroughTime",
    "HeadSharing",
    "HeadsExplorer",
    "LSTMGates",
    "MergeStepper",
    "Merges",
    "ModelTimeline",
    "NormalizedAxes",
    "NormalizedVector",
    "OptimizerPaths",
    "Point",
    "PoolGrowth",
    "PromptAssembly",
    "RankComparison",
    "Roofline",
    "RotorExplorer",
    "RougeL",
    "ScalingExplorer",
    "ScheduleDesigner",
    "SchemeExplorer",
    "ShrinkingBatch",
    "Slider",
    "SlopesExplorer",
    "SoftDictionary",
    "SpikeReplay",
    "StabilityMap",
    "TermMixer",
    "Text",
    "Tick",
    "TieModel",
    "TokenizerComparison",
    "TransformerExplorer",
    "VocabularyTradeOff",
    "Widget",
]
