"""Which rows of which expert a token gets: by the experts' choice, by the tokens', and what is dropped."""

import pytest
import torch

from overlayccl_core.training.routing import experts_choice, imbalance, packed, summed, tokens_choice

B, S, E, K, C, D = 3, 10, 4, 2, 3, 5
NOBODY = B * S


def scores(texts: int = B) -> torch.Tensor:
    """float64[B, S, E]: every text likes experts in an order of its own."""
    random = torch.Generator().manual_seed(4)
    likes = torch.randn(texts, S, E, generator=random, dtype=torch.float64)
    return (likes + 2 * torch.randn(texts, 1, E, generator=random, dtype=torch.float64)).softmax(-1)


def test_each_expert_takes_its_capacity_of_a_text_with_the_best_scores() -> None:
    of = scores()
    routes = experts_choice(of, C)
    assert routes.tokens.shape == (E, B * C) and routes.used.tolist() == [B * C] * E
    for expert in range(E):
        for text, tokens in enumerate(routes.tokens[expert].split(C)):
            taken = of[text, tokens - text * S, expert]
            assert taken.tolist() == of[text, :, expert].sort(descending=True).values[:C].tolist()
    flat = of.flatten(0, 1)
    assert all(torch.equal(routes.weights[e], flat[routes.tokens[e], e]) for e in range(E))


def test_of_the_tokens_that_chose_an_expert_the_first_of_each_text_find_room() -> None:
    of = scores()
    routes = tokens_choice(of, K, C)
    chosen = of.topk(K).indices
    dropped = 0
    for expert in range(E):
        of_texts = [(chosen[text] == expert).any(-1).nonzero()[:, 0] for text in range(B)]
        dropped += sum(len(tokens[C:]) for tokens in of_texts)
        expected = [int(token) + text * S for text, tokens in enumerate(of_texts) for token in tokens[:C]]
        assert routes.used[expert] == len(expected)
        assert routes.tokens[expert].tolist() == expected + [NOBODY] * (B * C - len(expected))
        assert not routes.weights[expert, len(expected) :].any()
    assert dropped > 0 and (routes.tokens == NOBODY).any()  # both happen here


@pytest.mark.parametrize("by", ["experts", "tokens"])
def test_a_text_is_routed_alike_whatever_is_beside_it(by: str) -> None:
    def routed(some: torch.Tensor) -> torch.Tensor:
        """float64[B, S, E]: the weight that each token has at each expert."""
        routes = experts_choice(some, C) if by == "experts" else tokens_choice(some, K, C)
        table = some.new_zeros(E, some[..., 0].numel() + 1).scatter(1, routes.tokens, routes.weights)
        return table[:, :-1].t().reshape(some.shape)

    of = scores()
    assert torch.equal(routed(of), torch.cat([routed(text[None]) for text in of]))


@pytest.mark.parametrize("by", ["experts", "tokens"])
def test_a_choice_that_is_given_stands_whatever_the_scores_are(by: str) -> None:
    of, others = scores(), scores().flip(1)
    if by == "experts":
        first, again = experts_choice(of, C), experts_choice(others, C, experts_choice(of, C).choice)
    else:
        first, again = tokens_choice(of, K, C), tokens_choice(others, K, C, tokens_choice(of, K, C).choice)
    assert torch.equal(first.tokens, again.tokens) and not torch.equal(first.weights, again.weights)


def test_a_token_gets_the_sum_of_its_experts_results_times_its_scores() -> None:
    of = scores()
    h = torch.randn(B * S, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    routes = tokens_choice(of, K, C)
    rows = packed(h, routes).view(E, -1, D)
    assert torch.equal(rows[routes.tokens < NOBODY], h[routes.tokens[routes.tokens < NOBODY]])
    assert not rows[routes.tokens == NOBODY].any()
    times = torch.arange(1, E + 1, dtype=torch.float64)  # of each expert
    got = summed((rows * times[:, None, None]).flatten(0, 1), routes, B * S)
    factor = torch.zeros(B * S, dtype=torch.float64)
    for expert in range(E):
        for row in range(int(routes.used[expert])):
            factor[routes.tokens[expert, row]] += times[expert] * routes.weights[expert, row]
    torch.testing.assert_close(got, h * factor[:, None])


def test_the_auxiliary_loss_is_one_of_equally_popular_experts_and_more_of_one_favourite() -> None:
    even = torch.eye(E)[None] * 0.6 + 0.1
    assert imbalance(even, even.topk(1).indices).item() == pytest.approx(1)
    one = torch.tensor([0.7, 0.1, 0.1, 0.1]).expand(1, S, E)
    assert imbalance(one, one.topk(1).indices).item() == pytest.approx(E * 0.7)
    both = torch.cat([one, one.roll(1, -1)])  # each text has another favourite: together they look even
    assert imbalance(both, both.topk(1).indices).item() == pytest.approx(E * 0.7)
