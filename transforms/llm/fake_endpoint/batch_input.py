"""What a batch's input file has to keep to, and how lists and errors are worded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

ENDPOINT = "/v1/chat/completions"


def check_input(
    data: bytes, most_requests: int, most_bytes: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the requests of an input file, and what is wrong with it."""
    lines: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    ids: set[str] = set()
    models: set[str] = set()
    for number, text in enumerate(data.splitlines(), start=1):
        try:
            line = json.loads(text)
            identity, model = line["custom_id"], line["body"]["model"]
        except (ValueError, KeyError, TypeError):
            errors.append(batch_error("invalid_json_line", number))
            continue
        if identity in ids:
            errors.append(batch_error("duplicate_custom_id", number))
        if (line.get("method"), line.get("url")) != ("POST", ENDPOINT):
            errors.append(batch_error("mismatched_endpoint", number))
        ids.add(identity)
        models.add(model)
        lines.append(line)
    if len(models) > 1:
        errors.append(batch_error("mismatched_model"))
    if not data:
        errors.append(batch_error("empty_file"))
    if len(data) > most_bytes:
        errors.append(batch_error("file_too_large"))
    if len(lines) > most_requests:
        errors.append(batch_error("too_many_requests"))
    return lines, errors


def batch_error(code: str, line: int | None = None) -> dict[str, Any]:
    """Return an error of a batch, or of one of its requests."""
    return {"code": code, "line": line, "message": "as the fake endpoint has it", "param": None}


def page_of(query: Mapping[str, str], items: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the page of a list that ``after`` and ``limit`` of the query ask for."""
    left = list(_after(items, query.get("after")))
    limit = int(query.get("limit", 20))
    page = left[:limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(left) > limit,
    }


def _after(items: list[dict[str, Any]], identity: str | None) -> Iterator[dict[str, Any]]:
    found = identity is None
    for item in items:
        if found:
            yield item
        found = found or item["id"] == identity
