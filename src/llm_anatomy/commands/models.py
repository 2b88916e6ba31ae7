"""The command ``models``: list the models of the lectures, show one, compare two."""

import argparse
import dataclasses
import textwrap
from pathlib import Path
from typing import Any

from llm_anatomy.commands.options import NAMED, WIDTH, add_command, add_json_option, print_json, print_table
from llm_anatomy.config import ModelConfig
from llm_anatomy.models.checkpoints.description import changed
from llm_anatomy.models.costs import costs
from llm_anatomy.models.loading import describe, is_stored
from llm_anatomy.models.presets import Preset, find, preset, presets


def add_models(models: argparse.ArgumentParser) -> None:
    models.epilog = (
        "examples: models; models show gpt-2; models show FOLDER; models diff gpt-2 llama-3-8b; models --json"
    )
    add_json_option(models, default=False)
    models.set_defaults(action=list_models)
    actions = models.add_subparsers(metavar="ACTION", title="actions; without one, the list")
    named = "a name from the list, such as gpt-2"

    one = add_command(actions, "show", "show all that is known of one model, and the source of each value")
    one.add_argument("name", metavar="NAME", help=f"{named}, or a model that can be loaded: {NAMED}")
    one.set_defaults(action=show)

    two = add_command(actions, "diff", "show how two models differ")
    two.add_argument("first", metavar="FIRST", help=named)
    two.add_argument("second", metavar="SECOND", help="such as llama-3-8b")
    two.set_defaults(action=diff)
    for action in (one, two):
        add_json_option(action, default=argparse.SUPPRESS)  # keeps the value of "models --json show"


def list_models(args: argparse.Namespace) -> None:
    records = list(presets().values())
    if args.json:
        return print_json([_summary(record) for record in records])
    rows = [list(_row(record).values()) for record in records]
    print_table(list(_row(records[0])), rows, right=("layers", "width", "parameters"))
    print("\nA dash means not public or not applicable. Details of a model: python -m llm_anatomy models show NAME")


def show(args: argparse.Namespace) -> None:
    if args.name not in presets() and (is_stored(args.name) or Path(args.name).exists()):
        return show_checkpoint(args)
    record = find(args.name)
    if args.json:
        return print_json(_summary(record))
    mentioned = ", ".join(record.items) or "no"
    print(f"{record.title} ({record.name}), {record.year}\n{record.paper}\nin the lectures: {mentioned}\n")
    print_table(["field", "value", "source"], [[f, str(v), record.sources[f]] for f, v in record.values.items()])
    sentences = [record.notes, record.difference]
    if record.unknown:
        sentences.insert(0, f"Not public: {', '.join(record.unknown)}. It cannot be built.")
    if record.builder:
        sentences.insert(0, f"Built by {record.builder}.")
    print()
    if record.known:
        print(f"parameters, counted:    {_n_parameters(record.config()):,}")
    if record.exact:
        print(f"parameters, exactly:    {record.exact:,} ({record.exact_source})")
    if record.printed:
        print(f"parameters, as printed: {record.printed} ({record.printed_source})")
    print(*(textwrap.fill(sentence, WIDTH) for sentence in sentences if sentence), sep="\n")


def show_checkpoint(args: argparse.Namespace) -> None:
    found = describe(args.name)
    if args.json:
        return print_json({**found, "config": dataclasses.asdict(found["config"])})
    tokenizer = found["tokenizer"] and "{kind}, {n_vocab:,} tokens".format(**found["tokenizer"])
    n_bytes, n_files = sum(found["files"].values()), len(found["files"])
    lines = {
        "path": found["path"],
        "family": found["family"] + (f" ({found['architecture']})" if found["architecture"] else ""),
        "model": found["model"],
        "parameters": f"{found['parameters']:,}",
        "stored as": ", ".join(f"{n:,} {kind}" for kind, n in found["dtypes"].items()),
        "files": f"{n_files}, {n_bytes / 1e6:,.1f} MB",
        "tokenizer": tokenizer or f"none: {found['tokenizer_note']}",
    }
    if found["pooling"] or found["pooling_note"]:
        lines["pooling"] = ", then ".join(found["pooling"] or ()) or f"none: {found['pooling_note']}"
    print(*(f"{name + ':':12s}{value}" for name, value in lines.items()), "", sep="\n")
    rows = [[part["part"], part["module"], f"{part['parameters']:,}"] for part in found["parts"]]
    print_table(["part", "module", "parameters"], rows, right=("parameters",))
    print()
    print_table(["field", "value"], [[name, str(value)] for name, value in changed(found["config"])])
    print("\nFields that are not listed have their defaults.")


def diff(args: argparse.Namespace) -> None:
    first, second = preset(args.first), preset(args.second)
    changed = first.difference(second)
    if args.json:
        return print_json({field: {args.first: a, args.second: b} for field, (a, b) in changed.items()})
    rows = [[field, str(a), str(b)] for field, (a, b) in changed.items()]
    rows += [["parameters", f"{_n_parameters(first):,}", f"{_n_parameters(second):,}"]]
    print_table(["field", args.first, args.second], rows)


def _n_parameters(config: ModelConfig) -> int:
    n_source = 1 if config.kind == "encoder-decoder" else None
    return costs(config, n_tokens=1, n_source=n_source).total.n_parameters


def _row(record: Preset) -> dict[str, str]:
    """The columns of the list for one model, abbreviated so that they fit into a line."""
    values = {field: str(value) for field, value in record.values.items() if value}
    heads, kv_heads = values.get("n_heads"), values.get("n_kv_heads", values.get("n_heads"))
    attention = f"{heads} latent" if values.get("attention") == "latent" else f"{heads}/{kv_heads}"
    feedforward = values.get("feedforward", "—").replace("clamped_swiglu", "swiglu")
    n_parameters = f"{_n_parameters(record.config()):,}" if record.known else record.printed
    return {
        "model": record.name,
        "year": str(record.year),
        "kind": values.get("kind", "—").replace("encoder-decoder", "enc-dec"),
        "position": values.get("position", "—").replace("transformer_xl", "xl"),
        "norm": values.get("norm", "—").replace("unit_offset_rmsnorm", "1+rmsnorm"),
        "placed": values.get("norm_placement", "—") + (", parallel" if values.get("parallel_block") else ""),
        "feed-forward": feedforward + (" experts" if "moe.n_experts" in values else ""),
        "heads/kv": attention if heads else "—",
        "layers": values.get("n_layers", "—"),
        "width": values.get("d_model", "—"),
        "parameters": n_parameters or "—",
    }


def _summary(record: Preset) -> dict[str, Any]:
    """Everything that is known about a model."""
    return {
        **{name: value for name, value in vars(record).items() if value is not None},
        "parameters": _n_parameters(record.config()) if record.known else None,
    }
