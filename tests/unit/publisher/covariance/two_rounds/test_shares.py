"""The strength of a release in two rounds, shared out."""

import math

import pytest

from dp_publish.covariance.two_rounds.shares import StepShares, share_out


@pytest.mark.parametrize(("mu", "n", "p"), [(1e-4, 10**9, 2), (1.0, 178, 13), (50.0, 1, 2000)])
@pytest.mark.parametrize("with_margins", [False, True])
def test_steps_cost_what_was_given_and_no_more(mu: float, n: int, p: int, with_margins: bool) -> None:
    """The steps' mu, composed as the root of the sum of squares, is the whole up to rounding, and never above it.

    A tenth of mu squared and more goes to histograms, if there are any, and then none to clips.
    """
    for searched, everywhere in ((0, 0), (1, 0), (p, p // 2)):
        shares = share_out(mu, n, p, searched, everywhere, with_margins=with_margins)
        steps = [shares.choice] * 2 + [shares.lengths, shares.first, shares.second]
        steps += [shares.place] * shares.n_places + [shares.range] * shares.n_ranges
        steps += [shares.margins] if with_margins else [shares.clip] * p
        composed = math.sqrt(math.fsum(step * step for step in steps))
        assert mu * (1 - 1e-9) < composed <= mu
        assert shares.total == pytest.approx(composed)
        assert min(steps) > 0
        assert not with_margins or (shares.clip == 0.0 and 0.1 <= (shares.margins / mu) ** 2 * (1 + 1e-9) < 0.35)


def test_small_tables_pay_more_for_their_places() -> None:
    """The share of centers and scales falls with n mu / sqrt(p), between 40 and 3 %, and with what is declared."""
    small, middling, large = (_share_of_places(share_out(1.0, n, 16, 16)) for n in (20, 600, 10**6))
    assert small == pytest.approx(0.4)
    assert middling == pytest.approx(14 * 4 / 600)
    assert large == pytest.approx(0.03)
    assert _share_of_places(share_out(1.0, 600, 16, 8)) == pytest.approx(middling / 2)
    assert _share_of_places(share_out(1.0, 600, 16, 0)) == 0


def _share_of_places(shares: StepShares) -> float:
    return shares.place**2 * shares.n_places
