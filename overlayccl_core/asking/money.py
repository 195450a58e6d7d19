"""US dollars of a call: of what it used, and of the most that it can use, before it is sent."""

import json
from dataclasses import replace

from overlayccl_core.asking.conversation import Request, Usage
from overlayccl_core.configuration.prices import Prices

# Tokens that a vendor adds to what is said: its prompt for tools (at most 530 for any model in
# https://docs.anthropic.com/en/docs/tool-use-pricing-and-tokens) and for a schema of the answer.
ADDED_TOKENS = 2000
_MILLION = 1e6


def most_tokens(request: Request) -> int:
    """No fewer tokens than a request's prompt has, without asking anybody.

    A token of a byte-pair vocabulary stands for at least one byte, so a text has at most as many tokens as bytes.
    The JSON of what is said has all its texts and, for the marks between messages, braces and names. The bound is
    far from what comes: English has a token for every three or four bytes.
    """
    said = json.dumps(request.prompt, ensure_ascii=False)
    return len(said.encode(errors="surrogatepass")) + ADDED_TOKENS


def most_usd(request: Request, prices: Prices) -> float | None:
    """The most that one answer can cost; None where the model has no price."""
    prompt = most_tokens(request)
    price = prices.of_model(request.model, prompt)
    if price is None:
        return None
    dearest = max(price.input, price.cache_read, price.cache_write)
    return (prompt * dearest + request.max_tokens * price.output) / _MILLION


def usd_of(usage: Usage, model: str, prices: Prices) -> float | None:
    """What was used, at the price of the model; None where it has none."""
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
    """What a call without an answer may have cost: all that it could, if nothing is known of what it used.

    Of an answer that was cut nobody knows how long it was on the other side: it counts as the longest.
    """
    if usage is None:
        return most_usd(request, prices)
    if usage == Usage():
        return 0.0
    return usd_of(replace(usage, output=request.max_tokens), request.model, prices)
