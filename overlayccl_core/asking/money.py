"""US dollars of a call: its cost, and its highest possible cost before it is sent."""

import json
from dataclasses import replace

from overlayccl_core.asking.conversation import Request, Usage
from overlayccl_core.configuration.prices import Prices

# Tokens added to the prompt by a vendor: its prompt for tools (at most 530 for any model in
# https://docs.anthropic.com/en/docs/tool-use-pricing-and-tokens) and for a schema of the answer.
ADDED_TOKENS = 2000
_MILLION = 1e6


def most_tokens(request: Request) -> int:
    """Return an upper bound on the tokens of a request's prompt, computed locally.

    A token of a byte-pair vocabulary covers at least one byte, so a text has at most as many tokens as bytes. The
    prompt's JSON has all texts; its braces and names cover the marks between messages. The bound is loose: English
    has a token for every three or four bytes.
    """
    said = json.dumps(request.prompt, ensure_ascii=False)
    return len(said.encode(errors="surrogatepass")) + ADDED_TOKENS


def most_usd(request: Request, prices: Prices) -> float | None:
    """Return the highest possible cost of one answer; None if the model has no price."""
    prompt = most_tokens(request)
    price = prices.of_model(request.model, prompt)
    if price is None:
        return None
    dearest = max(price.input, price.cache_read, price.cache_write)
    return (prompt * dearest + request.max_tokens * price.output) / _MILLION


def usd_of(usage: Usage, model: str, prices: Prices) -> float | None:
    """Return the cost of the tokens used; None if the model has no price."""
    price = prices.of_model(model, usage.input + usage.cache_read + usage.cache_write)
    if price is None:
        return None
    return (
        usage.input * price.input
        + usage.output * price.output
        + usage.cache_read * price.cache_read
        + usage.cache_write * price.cache_write
    ) / _MILLION


def usd_of_failure(usage: Usage | None, request: Request, prices: Prices) -> float | None:
    """Return the highest possible cost of a call without an answer.

    Unknown usage counts as the most the call can use. The full length of a cut answer is unknown, so it counts as
    the longest.
    """
    if usage is None:
        return most_usd(request, prices)
    if usage == Usage():
        return 0.0
    return usd_of(replace(usage, output=request.max_tokens), request.model, prices)
