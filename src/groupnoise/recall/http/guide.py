"""Example requests, for the terminal and the page of routes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any
from urllib.parse import quote

from groupnoise.recall.items import ItemId, ItemTable

N_CLICKS = 2
"""Clicks in the example history."""
TOKEN = "Authorization: Bearer $GROUPNOISE_TOKEN"
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Routes · groupnoise</title>
<link rel="stylesheet" href="page.css">
</head>
<body>
<header class="top">
<p class="brand"><span class="mark" aria-hidden="true"></span>groupnoise \
<span class="brand-sub">routes</span></p>
<nav><a href="./">The page</a> <a href="openapi.json">openapi.json</a></nav>
</header>
<main class="docs">
{sections}
</main>
</body>
</html>
"""


def example_clicks(items: ItemTable) -> list[ItemId]:
    """Return an example history: the most popular items of a model."""
    return items.ids_of(items.popular_order[:N_CLICKS])


def curl(address: str, clicks: list[ItemId], *, needs_token: bool) -> str:
    """Return a curl command that requests items for a history."""
    body = json.dumps({"histories": [clicks], "top": 5}, ensure_ascii=False)
    words = [*_curl_words(needs_token), "-H", shlex.quote("Content-Type: application/json")]
    return " ".join([*words, "-d", shlex.quote(body), shlex.quote(f"{address}/v1/recall")])


def curl_similar(address: str, item: ItemId, *, needs_token: bool) -> str:
    """Return a curl command that requests items similar to one."""
    path = f"{address}/v1/similar/{quote(str(item), safe='')}?top=5"
    return " ".join([*_curl_words(needs_token), shlex.quote(path)])


def _curl_words(needs_token: bool) -> list[str]:
    # In double quotes, so that the shell expands the token.
    return ["curl", "-s", *(["-H", f'"{TOKEN}"'] if needs_token else [])]


def routes_page(
    schema: Mapping[str, Any], address: str, clicks: list[ItemId], *, needs_token: bool
) -> str:
    """Return an HTML page that lists the routes of a service."""
    examples = {
        ("post", "/v1/recall"): curl(address, clicks, needs_token=needs_token),
        ("get", "/v1/similar/{item}"): curl_similar(address, clicks[0], needs_token=needs_token),
    }
    sections = [
        _section(path, method, operation, examples.get((method, path)))
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    return PAGE.format(sections="\n".join(sections))


def _section(path: str, method: str, operation: Mapping[str, Any], example: str | None) -> str:
    fields = [
        f"<dt><code>{escape(name)}</code></dt><dd>{escape(words)}</dd>"
        for name, words in _fields(operation)
    ]
    return "\n".join(
        [
            '<section class="panel">',
            f"<h2><code>{method.upper()} {escape(path)}</code></h2>",
            f"<p>{escape(operation.get('description', ''))}</p>",
            *([f"<pre>{escape(example)}</pre>"] if example else []),
            *([f"<dl>{''.join(fields)}</dl>"] if fields else []),
            "</section>",
        ]
    )


def _fields(operation: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a route and the fields of its body with their descriptions."""
    for parameter in operation.get("parameters", ()):
        field = {**parameter.get("schema", {}), **parameter}
        yield (
            parameter["name"],
            _describe_field(field, is_required=parameter.get("required", False)),
        )
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = body.get("schema", {})
    for name, field in schema.get("properties", {}).items():
        yield name, _describe_field(field, is_required=name in schema.get("required", ()))


def _describe_field(field: Mapping[str, Any], *, is_required: bool) -> str:
    """Return the description, default and example of a field."""
    words = [field.get("description", "")]
    if is_required:
        words.append("Required.")
    elif "default" in field:
        words.append(f"Default: {json.dumps(field['default'])}.")
    else:
        words.append("Optional.")
    if field.get("examples"):
        words.append(f"Example: {json.dumps(field['examples'][0], ensure_ascii=False)}")
    return " ".join(words)
