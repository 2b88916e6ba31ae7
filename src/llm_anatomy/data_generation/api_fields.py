"""The fields of OpenAI's API that the server knows: one table gives validation, messages, help and OpenAPI document.

A field is *honoured*, *ignored* (accepted without effect), *neutral* (only values that ask for nothing are accepted) or
*refused*. For a field that is not required, null means the default. The table names every field of the requests and
messages in OpenAI's schema, and ``reasoning_content``, with which other servers pass on what a model thought.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

Home = Literal["completions", "chat", "both", "message"]
Policy = Literal["honoured", "ignored", "neutral", "refused"]

MAX_CHOICES, MAX_TOKENS, MAX_ENTRIES = 128, 32_768, 2048


def _object(title: str, required: Sequence[str], more: bool = False, **properties: Any) -> dict[str, Any]:
    described = {"type": "object", "title": title, "properties": properties, "required": [*required]}
    return described | {"additionalProperties": more}


def _list(title: str, items: Mapping[str, Any], least: int = 0, most: int = MAX_ENTRIES) -> dict[str, Any]:
    return {"type": "array", "title": title, "minItems": least, "maxItems": most, "items": items}


def _whole(least: int, most: int, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most, **more}


TEXT, NOTHING, SOME_TEXT = {"type": "string"}, {"type": "null"}, {"type": "string", "minLength": 1}
TEMPERATURE = {"type": "number", "minimum": 0, "maximum": 2, "default": 1}
TOP_P = {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "default": 1}
STOP = {"anyOf": [SOME_TEXT, _list("a list of at most 4 texts", SOME_TEXT, most=4)]}
OPTIONS = _object("an object", [], include_usage={"type": "boolean"}, include_obfuscation={"const": False})
ROLE = {"enum": ["developer", "system", "user", "assistant", "tool", "function"]}
PART = _object("a part", ["type", "text"], type={"const": "text"}, text=TEXT)
MORE_ABOUT_A_TOOL = {
    "description": {"anyOf": [TEXT, NOTHING]},
    "parameters": {"anyOf": [{"type": "object"}, NOTHING]},
    "strict": {"enum": [False, None]},
}
FUNCTION = _object("a function", ["name"], name=TEXT, **MORE_ABOUT_A_TOOL)
CALLED = _object("a function with its arguments", ["name", "arguments"], name=TEXT, arguments=TEXT)
TOOL = _object("a tool", ["type", "function"], type={"const": "function"}, function=FUNCTION)
CALL = _object("a call", ["id", "type", "function"], id=TEXT, type={"const": "function"}, function=CALLED)

TABLE: Mapping[tuple[Home, Policy], Mapping[str, tuple[dict[str, Any], str]]] = {
    ("both", "honoured"): {
        "model": (TEXT, "the name of the model, as /v1/models says it"),
        "n": (_whole(1, MAX_CHOICES, default=1), "the number of completions of each prompt"),
        "temperature": (TEMPERATURE, "0, and anything below 0.00001, takes the most probable token each time"),
        "top_p": (TOP_P, "tokens are sampled from the fewest that together have this probability"),
        "seed": (_whole(-(2**63), 2**64), "the same request with the same seed has the same answer"),
        "stop": (STOP, "a completion ends before the first of these"),
        "stream": ({"type": "boolean", "default": False}, "the answer is sent while it is written"),
        "stream_options": (OPTIONS, "include_usage sends the numbers of tokens at the end of a stream"),
    },
    ("completions", "honoured"): {
        "prompt": ({}, "what is continued, as texts or as ids of tokens"),
        "max_tokens": (_whole(1, MAX_TOKENS, default=16), "the most tokens of a completion"),
    },
    ("chat", "honoured"): {
        "messages": ({}, "the conversation, which the chat template of the model turns into a prompt"),
        "max_completion_tokens": (_whole(1, MAX_TOKENS), "by default what the context has left, or 1024"),
        "max_tokens": (_whole(1, MAX_TOKENS), "an older name of max_completion_tokens"),
        "tools": (
            _list("a list of at most 128 tools", TOOL, most=128),
            "functions that the chat template describes to the model; calls are left in the answer's text, unparsed",
        ),
        "tool_choice": ({"enum": ["auto", "none"], "default": "auto"}, "none leaves the tools out"),
    },
    ("both", "ignored"): {"user": (TEXT, "who asks")},
    ("chat", "ignored"): {
        "metadata": ({"type": "object"}, "notes for OpenAI's dashboard"),
        "store": ({"type": "boolean"}, "whether OpenAI keeps the answer; this server keeps none"),
        "service_tier": (TEXT, "how fast OpenAI answers"),
        "safety_identifier": (TEXT, "who asks"),
        "prompt_cache_key": (TEXT, "for OpenAI's cache"),
        "prompt_cache_options": ({"type": "object"}, "for OpenAI's cache"),
        "prompt_cache_retention": (TEXT, "for OpenAI's cache"),
    },
    ("both", "neutral"): {
        "frequency_penalty": ({"const": 0}, "against tokens that were written often"),
        "presence_penalty": ({"const": 0}, "against tokens that were written"),
        "logit_bias": ({"type": "object", "maxProperties": 0, "title": "{}"}, "changes of single logits"),
        "logprobs": ({"const": False}, "log-probabilities of the tokens"),
    },
    ("completions", "neutral"): {
        "best_of": ({"const": 1}, "the best of several completions"),
        "echo": ({"const": False}, "the prompt before its completion"),
        "suffix": ({"const": ""}, "the text after the completion"),
    },
    ("chat", "neutral"): {
        "top_logprobs": ({"const": 0}, "the most probable tokens"),
        "response_format": ({"const": {"type": "text"}}, "an answer in JSON"),
        "modalities": ({"const": ["text"]}, "an answer that is spoken"),
        "verbosity": ({"const": "medium"}, "how long the answer is"),
        "parallel_tool_calls": ({"const": True}, "whether there may be several calls"),
        "functions": ({"const": []}, "an older form of tools"),
        "function_call": ({"enum": ["auto", "none"]}, "an older form of tool_choice"),
    },
    ("chat", "refused"): {
        "audio": (NOTHING, "the voice of the answer"),
        "prediction": (NOTHING, "a text that much of the answer equals"),
        "reasoning_effort": (NOTHING, "how much the model thinks"),
        "moderation": (NOTHING, "whether the conversation is judged"),
        "web_search_options": (NOTHING, "a search on the web"),
    },
    ("message", "honoured"): {
        "role": (ROLE, "who speaks"),
        "content": ({"anyOf": [TEXT, _list("a list of parts", PART, 1)]}, "a text, or parts that are joined"),
        "name": (TEXT, "of the speaker, for the chat template"),
        "tool_calls": (_list("a list of calls", CALL), "what the assistant called, for the chat template"),
        "tool_call_id": (TEXT, "the call that a tool answers, for the chat template"),
        "reasoning_content": (TEXT, "what the assistant thought, for the chat template"),
    },
    ("message", "neutral"): {"annotations": ({"const": []}, "citations in an answer")},
    ("message", "refused"): {
        "refusal": (NOTHING, "why the assistant did not answer"),
        "audio": (NOTHING, "an earlier answer that was spoken"),
        "function_call": (NOTHING, "an older form of tool_calls"),
    },
}
"""For each kind of request and policy, the fields, each with the JSON schema of what is accepted and a summary."""

REQUIRED = ("model", "prompt", "messages", "role")
IGNORED = frozenset(name for (_, policy), rows in TABLE.items() if policy == "ignored" for name in rows)
NEUTRAL = {
    name: schema
    for (_, policy), rows in TABLE.items()
    if policy in ("neutral", "refused")
    for name, (schema, _) in rows.items()
}
"""What is not supported, with the values that ask for nothing."""


class ApiField(NamedTuple):
    """A field of a request or of a message.

    Source: the reference of OpenAI's API; GT-46.

    >>> fields_of("completions")["echo"]
    ApiField(policy='neutral', schema={'const': False}, summary='the prompt before its completion')
    """

    policy: Policy
    """What the server does with it."""

    schema: dict[str, Any]
    """The JSON schema of the values that are accepted, with the default if it is a constant."""

    summary: str
    """What it means, in one line."""


def fields_of(home: Home) -> dict[str, ApiField]:
    """Return the fields of a request or of a message by name.

    Args:
        home: ``"completions"``, ``"chat"`` or ``"message"``.

    Source: the reference of OpenAI's API; GT-46.

    >>> {"prompt", "seed"} <= fields_of("completions").keys(), "prompt" in fields_of("chat")
    (True, False)
    """
    homes = (home,) if home == "message" else ("both", home)
    return {
        name: ApiField(policy, *row)
        for (where, policy), rows in TABLE.items()
        if where in homes
        for name, row in rows.items()
    }


def help_text() -> str:
    """Say in a few sentences what the server does with the fields.

    Source: the reference of OpenAI's API; GT-46.

    >>> "Honoured: model, n, temperature" in help_text()
    True
    """
    texts = {"honoured": "Honoured", "ignored": "Accepted without effect", "refused": "Refused"}
    texts |= {"neutral": "Accepted if they ask for nothing", "message": "In messages"}
    names: dict[str, dict[str, None]] = {kind: {} for kind in texts}
    for (home, policy), rows in TABLE.items():
        kind = policy if home != "message" else "message" if policy == "honoured" else None
        names.get(kind or "", {}).update(dict.fromkeys(rows))
    said = " ".join(f"{text}: {', '.join(names[kind])}." for kind, text in texts.items())
    return f"{said} The chat template describes tools to the model; calls in an answer are left in its text, unparsed."


def request_schema(home: Home, model: str, n_vocab: int, n_ctx: int | None) -> dict[str, Any]:
    """Return the JSON schema of a request for one model.

    Args:
        home: ``"completions"`` or ``"chat"``.
        model: its name.
        n_vocab, n_ctx: of its config; they bound prompts that are given as ids.

    Source: the reference of OpenAI's API; GT-46.

    >>> request_schema("chat", "tiny", 257, 64)["required"]
    ['model', 'messages']
    """
    n_ctx = n_ctx or 2**20
    ids = _list(f"a list of 1 to {n_ctx} ids below {n_vocab}", _whole(0, n_vocab - 1), 1, n_ctx)
    prompts = _list(f"a list of 1 to {MAX_CHOICES} of these", {"anyOf": [TEXT, ids]}, 1, MAX_CHOICES)
    message = _described("message", "a message with a content, or with tool_calls") | {
        "anyOf": [
            {"properties": {"content": {"not": NOTHING}}, "required": ["content"]},
            {"properties": {"tool_calls": {"type": "array", "minItems": 1}}, "required": ["tool_calls"]},
        ],
    }
    return _described(
        home,
        "an object",
        model={"type": "string", "enum": [model]},
        prompt={"anyOf": [TEXT, ids, prompts]},
        messages=_list(f"a list of 1 to {MAX_ENTRIES} messages", message, 1),
    )


def _described(home: Home, title: str, **own: Any) -> dict[str, Any]:
    fields, properties = fields_of(home), {}
    for name, field in fields.items():
        schema = own.get(name, field.schema)
        described = schema if name in REQUIRED else {"anyOf": [schema, NOTHING]}
        more = {"default": schema["default"]} if "default" in schema else {}
        properties[name] = described | more | {"description": f"{field.summary} ({field.policy})"}
    return _object(title, [name for name in REQUIRED if name in fields], **properties)


def phrase(schema: Mapping[str, Any]) -> str:
    """Say in words which values a schema allows.

    Args:
        schema: of the kinds that the table has.

    Source: JSON Schema, draft 2020-12.

    >>> phrase({"anyOf": [{"type": "integer", "minimum": 1, "maximum": 128}, {"type": "null"}]})
    'a whole number from 1 to 128, or null'
    """
    match schema:
        case {"title": title}:
            return title
        case {"const": value}:
            return json.dumps(value)
        case {"enum": values}:
            return _either(json.dumps(value) for value in values)
        case {"anyOf": schemas}:
            return _either(phrase(part) for part in schemas)
        case {"type": "integer" | "number" as kind, "maximum": most}:
            least = f"from {schema['minimum']} to" if "minimum" in schema else "above 0 and at most"
            return f"a {'whole number' if kind == 'integer' else kind} {least} {most}"
        case {"minLength": 1}:
            return "a text that is not empty"
    return {"boolean": "true or false", "object": "an object", "null": "null"}.get(schema["type"], "a text")


def _either(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)}, or {last}"


def openapi(model: str, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the OpenAPI document of the server.

    Args:
        model: its name.
        requests: the schemas of the requests ``"completions"`` and ``"chat"``.

    Source: the OpenAPI Specification, version 3.1; GT-46.

    >>> sorted(openapi("tiny", {"completions": {}, "chat": {}})["paths"])
    ['/v1/chat/completions', '/v1/completions', '/v1/models', '/v1/models/{model}']
    """

    def content(schema: Mapping[str, Any]) -> dict[str, Any]:
        return {"content": {"application/json": {"schema": schema}}}

    def operation(summary: str, names: str, **more: Any) -> dict[str, Any]:
        answer = content(_object("an answer", names.split(), more=True))
        if "requestBody" in more:
            answer["content"]["text/event-stream"] = {}
        failed = {"description": "One sentence says what is wrong.", **content(error)}
        return {"summary": summary, "responses": {"200": {"description": summary, **answer}, "default": failed}, **more}

    def post(summary: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        return {"post": operation(summary, answered, requestBody={"required": True, **content(schema)})}

    maybe, names = {"type": ["string", "null"]}, ("message", "type", "param", "code")
    error = _object("", ["error"], error=_object("", names, message=TEXT, type=TEXT, param=maybe, code=maybe))
    card, answered = "id object created owned_by", "id object created model choices usage"
    which = {"name": "model", "in": "path", "required": True, "schema": {"enum": [model]}}
    paths = {
        "/v1/models": {"get": operation("List the model.", "object data")},
        "/v1/models/{model}": {"get": operation("Describe the model.", card, parameters=[which])},
        "/v1/completions": post("Continue prompts.", requests["completions"]),
        "/v1/chat/completions": post("Answer a conversation.", requests["chat"]),
    }
    return {"openapi": "3.1.0", "info": {"title": f"llm_anatomy: {model}", "version": "1"}, "paths": paths}
