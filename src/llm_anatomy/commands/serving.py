"""The command ``serve``: a model behind OpenAI's API."""

import argparse
from pathlib import Path

from llm_anatomy.commands.options import NAMED, add_quantize
from llm_anatomy.data_generation.api_fields import help_text
from llm_anatomy.data_generation.local_model import LocalModel


def add_serve(command: argparse.ArgumentParser) -> None:
    command.epilog = (
        "examples: serve ./my-model --port 8000; serve story_rope; then the clients' base_url is "
        "http://127.0.0.1:8000/v1, and any text is a key. It answers /v1/models, /v1/completions and "
        "/v1/chat/completions, also as a stream, and describes them in /openapi.json. There are no accounts: --host "
        f"0.0.0.0 opens it to everybody in the network. Fields of requests. {help_text()}"
    )
    command.add_argument("checkpoint", metavar="CHECKPOINT", help=NAMED)
    command.add_argument("--name", help="of the model, for its clients; default: the last part of CHECKPOINT")
    command.add_argument("--host", default="127.0.0.1", help="the address to listen at; default: %(default)s")
    command.add_argument("--port", type=int, default=8000, help="0 takes a free one; default: %(default)s")
    command.add_argument("--dtype", help="such as bfloat16; default: that of the files")
    add_quantize(command)
    command.add_argument("--device", default="cpu", help="such as cuda; default: %(default)s")
    command.add_argument("--quiet", action="store_true", help="do not log requests")
    command.set_defaults(action=serve)


def serve(args: argparse.Namespace) -> None:
    try:
        from llm_anatomy.data_generation.server import CompletionServer
    except ImportError as error:
        raise ValueError(
            f"the server needs {error.name}, which is not installed; run pip install 'llm_anatomy[serving]'"
        ) from None
    name = args.name or Path(args.checkpoint).name
    model = LocalModel.open(args.checkpoint, dtype=args.dtype, device=args.device, quantize=args.quantize)
    with CompletionServer(model, name, host=args.host, port=args.port, quiet=args.quiet) as server:
        print(f"{name} is served at {server.url}; Ctrl-C stops it", flush=True)
        server.serve_forever()
