"""Every loss against arithmetic done by hand, and against the properties that catch a wrong equation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tdinfonce import losses

LN2 = np.log(2.0)
# exp of these logits is 1, 2, 3 and the like, so that every softmax below is a fraction one can check by hand.
LOGITS = np.log(np.array([[2.0, 1.0, 1.0], [1.0, 3.0, 1.0], [2.0, 2.0, 4.0]]))


def matrices(rows: int, columns: int | None = None) -> st.SearchStrategy[np.ndarray]:
    shape = (rows, columns or rows)
    return arrays(np.float32, shape, elements=st.floats(-5, 5, width=32, allow_subnormal=False))


class TestInfonce:
    def test_value_by_hand(self):
        # Softmax of the diagonal: 2/4, 3/5, 4/8.
        np.testing.assert_allclose(losses.infonce(LOGITS), -np.log([1 / 2, 3 / 5, 1 / 2]), rtol=1e-6)

    def test_gradient_by_hand(self):
        gradient = jax.grad(lambda x: losses.infonce(x).sum())(jnp.asarray(LOGITS))
        softmax = np.array([[1 / 2, 1 / 4, 1 / 4], [1 / 5, 3 / 5, 1 / 5], [1 / 4, 1 / 4, 1 / 2]])
        np.testing.assert_allclose(gradient, softmax - np.eye(3), atol=1e-6)

    def test_one_row_has_nothing_to_learn(self):
        assert float(losses.infonce([[3.0]])[0]) == 0.0

    def test_right_logits_beat_wrong_ones(self):
        right = np.eye(4) * 3
        assert losses.infonce(right).mean() < losses.infonce(np.zeros((4, 4))).mean() < losses.infonce(-right).mean()

    def test_normalised_representations_bound_the_loss(self):
        # Logits in [-1, 1] at N = 256: no critic gets below log(1 + 255 exp(-2)).
        best = 2 * np.eye(256) - 1
        assert float(losses.infonce(best).mean()) == pytest.approx(3.570, abs=5e-4)

    @given(matrices(5, 3), st.lists(st.integers(0, 2), min_size=5, max_size=5))
    def test_grouped_columns_give_the_loss_of_the_whole_batch(self, table, state):
        state = np.array(state)
        grouped = losses.infonce(table, positive=state, counts=np.bincount(state, minlength=3))
        np.testing.assert_allclose(grouped, losses.infonce(table[:, state]), atol=1e-5)


class TestSymmetricInfonce:
    def test_value_by_hand(self):
        logits = np.log(np.array([[1.0, 1.0], [2.0, 1.0]]))
        rows = np.array([1 / 2, 1 / 3])
        columns = np.array([1 / 3, 1 / 2])
        np.testing.assert_allclose(losses.symmetric_infonce(logits), -(np.log(rows) + np.log(columns)) / 2, rtol=1e-6)

    def test_gradient_by_hand(self):
        logits = jnp.log(jnp.array([[1.0, 1.0], [2.0, 1.0]]))
        gradient = jax.grad(lambda x: losses.symmetric_infonce(x).sum())(logits)
        by_row = np.array([[1 / 2, 1 / 2], [2 / 3, 1 / 3]]) - np.eye(2)
        by_column = np.array([[1 / 3, 1 / 2], [2 / 3, 1 / 2]]) - np.eye(2)
        np.testing.assert_allclose(gradient, (by_row + by_column) / 2, atol=1e-6)

    @given(matrices(4))
    def test_transposing_changes_nothing(self, logits):
        np.testing.assert_allclose(losses.symmetric_infonce(logits), losses.symmetric_infonce(logits.T), atol=1e-5)

    @given(matrices(4))
    def test_rows_alone_do_not_decide(self, logits):
        shifted = logits + np.arange(4)[:, None]
        np.testing.assert_allclose(losses.infonce(shifted), losses.infonce(logits), atol=1e-5)
        if np.ptp(logits) < 0.5:
            assert not np.allclose(losses.symmetric_infonce(shifted), losses.symmetric_infonce(logits), atol=1e-3)


class TestBinaryNce:
    def test_value_by_hand(self):
        # Odds 3 and 1 in the first row: log(4/3) for the positive, log 2 for the negative, and so on.
        logits = np.log(np.array([[3.0, 1.0], [1.0, 1.0]]))
        np.testing.assert_allclose(losses.binary_nce(logits), [(np.log(4 / 3) + LN2) / 2, LN2], rtol=1e-6)

    def test_gradient_by_hand(self):
        logits = jnp.log(jnp.array([[3.0, 1.0], [1.0, 1.0]]))
        gradient = jax.grad(lambda x: losses.binary_nce(x).sum())(logits)
        np.testing.assert_allclose(gradient, np.array([[3 / 4 - 1, 1 / 2], [1 / 2, 1 / 2 - 1]]) / 2, atol=1e-6)

    def test_inverted_logits_are_worse_than_none(self):
        right = (2 * np.eye(5) - 1) * 4
        assert losses.binary_nce(right).mean() < losses.binary_nce(np.zeros((5, 5))).mean()
        assert losses.binary_nce(np.zeros((5, 5))).mean() < losses.binary_nce(-right).mean()

    def test_mean_over_rows_is_the_mean_over_all_entries(self):
        softplus = np.log1p(np.exp(np.where(np.eye(3) == 1, -LOGITS, LOGITS)))
        assert float(losses.binary_nce(LOGITS).mean()) == pytest.approx(softplus.mean(), rel=1e-6)

    def test_optimum_is_the_log_ratio_less_the_log_of_the_negatives(self):
        # One positive to N - 1 negatives: at f = log ratio - log(N - 1) the expected gradient vanishes.
        ratio, negatives = 2.5, 7
        logit = np.log(ratio) - np.log(negatives)
        sigmoid = 1 / (1 + np.exp(-logit))
        assert ratio * (sigmoid - 1) + negatives * sigmoid == pytest.approx(0, abs=1e-12)


class TestLogsumexpPenalty:
    def test_value_and_gradient_by_hand(self):
        logits = jnp.log(jnp.array([[2.0, 1.0], [1.0, 1.0]]))
        np.testing.assert_allclose(losses.logsumexp_penalty(logits), np.log([3.0, 2.0]) ** 2, rtol=1e-6)
        gradient = jax.grad(lambda x: losses.logsumexp_penalty(x).sum())(logits)
        np.testing.assert_allclose(gradient[0], 2 * np.log(3) * np.array([2 / 3, 1 / 3]), rtol=1e-5)

    def test_pins_the_constant_that_infonce_leaves_free(self):
        assert losses.logsumexp_penalty(LOGITS + 5).mean() > losses.logsumexp_penalty(LOGITS).mean()


class TestImportanceWeights:
    def test_value_by_hand(self):
        expected = [[1 / 2, 1 / 4, 1 / 4], [1 / 5, 3 / 5, 1 / 5], [1 / 4, 1 / 4, 1 / 2]]
        np.testing.assert_allclose(losses.importance_weights(LOGITS), expected, rtol=1e-6)

    @given(matrices(6))
    def test_rows_sum_to_one(self, logits):
        np.testing.assert_allclose(losses.importance_weights(logits).sum(axis=1), 1, rtol=1e-5)

    def test_no_gradient(self):
        gradient = jax.grad(lambda x: (losses.importance_weights(x) ** 2).sum())(jnp.asarray(LOGITS))
        assert not np.any(gradient)

    def test_an_absent_column_gets_nothing_however_large_its_logit(self):
        weights = losses.importance_weights([[0.0, 80.0, 0.0]], counts=[3, 0, 1])
        np.testing.assert_allclose(weights, [[3 / 4, 0, 1 / 4]], rtol=1e-6)


class TestTdInfonce:
    NEXT = np.log(np.array([[1.0, 1.0], [3.0, 1.0]]))
    RANDOM = np.log(np.array([[1.0, 3.0], [2.0, 2.0]]))
    TARGET = np.log(np.array([[1.0, 1.0], [1.0, 3.0]]))

    def test_value_by_hand(self):
        # Row 0: next state 1/2; weights 1/2, 1/2 on log(1/4), log(3/4). Row 1: next state 1/4; 1/4, 3/4 on log(1/2).
        first = -np.log([1 / 2, 1 / 4])
        second = -np.array([(np.log(1 / 4) + np.log(3 / 4)) / 2, np.log(1 / 2)])
        loss = losses.td_infonce(self.NEXT, self.RANDOM, self.TARGET, discount=0.9)
        np.testing.assert_allclose(loss, 0.1 * first + 0.9 * second, rtol=1e-5)

    def test_gradients_by_hand(self):
        def total(following, random, target):
            return losses.td_infonce(following, random, target, discount=0.9).sum()

        arguments = tuple(jnp.asarray(x) for x in (self.NEXT, self.RANDOM, self.TARGET))
        following, random, target = jax.grad(total, argnums=(0, 1, 2))(*arguments)
        np.testing.assert_allclose(following, 0.1 * (np.array([[1 / 2, 1 / 2], [3 / 4, 1 / 4]]) - np.eye(2)), atol=1e-6)
        weights = np.array([[1 / 2, 1 / 2], [1 / 4, 3 / 4]])
        np.testing.assert_allclose(random, 0.9 * (np.array([[1 / 4, 3 / 4], [1 / 2, 1 / 2]]) - weights), atol=1e-6)
        assert not np.any(target)

    def test_without_discount_it_is_infonce_on_next_states(self):
        loss = losses.td_infonce(self.NEXT, self.RANDOM, self.TARGET, discount=0.0)
        np.testing.assert_allclose(loss, losses.infonce(self.NEXT), rtol=1e-6)

    def test_a_discount_for_each_row(self):
        both = losses.td_infonce(self.NEXT, self.RANDOM, self.TARGET, discount=np.array([0.9, 0.5]))
        for row, discount in enumerate((0.9, 0.5)):
            alone = losses.td_infonce(self.NEXT, self.RANDOM, self.TARGET, discount=discount)
            assert float(both[row]) == pytest.approx(float(alone[row]), rel=1e-6)

    def test_one_row_has_nothing_to_learn(self):
        assert float(losses.td_infonce([[2.0]], [[1.0]], [[3.0]], discount=0.9)[0]) == pytest.approx(0, abs=1e-6)

    @given(matrices(4), matrices(4), matrices(4), st.integers(1, 3))
    def test_order_of_random_states_does_not_matter(self, following, random, target, shift):
        loss = losses.td_infonce(following, random, target, discount=0.9)
        rolled = losses.td_infonce(
            following, np.roll(random, shift, axis=1), np.roll(target, shift, axis=1), discount=0.9
        )
        np.testing.assert_allclose(loss, rolled, atol=1e-5)

    @given(matrices(5, 3), matrices(5, 3), st.data())
    def test_grouped_columns_give_the_loss_of_the_whole_batch(self, table, target, data):
        states = st.lists(st.integers(0, 2), min_size=5, max_size=5)
        following, random = np.array(data.draw(states)), np.array(data.draw(states))
        whole = losses.td_infonce(table[:, following], table[:, random], target[:, random], discount=0.8)
        grouped = losses.td_infonce(
            table,
            table,
            target,
            discount=0.8,
            positive=following,
            next_counts=np.bincount(following, minlength=3),
            random_counts=np.bincount(random, minlength=3),
        )
        np.testing.assert_allclose(grouped, whole, atol=2e-5)


class TestFixedPoint:
    """A chain of three states with two actions, each transition of the SARSA chain once in the batch.

    State s goes to s + 1 under action 0 and to s - 1 or stays under action 1, so that the chain is not symmetric but
    its stationary law is uniform: the batch holds every state equally often, in the right proportion to every other.
    """

    STATES, ACTIONS, DISCOUNT = 3, 2, 0.8

    def setup_method(self):
        rows = [
            (s * 2 + a, ((s + 1) % 3 if a == 0 else s) * 2 + b) for s in range(3) for a in range(2) for b in range(2)
        ]
        self.pair, self.next_pair = (np.array(column) for column in zip(*rows, strict=True))
        self.random = np.repeat(np.arange(3), 4)
        chain = np.zeros((6, 6))
        move = np.zeros((6, 3))
        for x, y in rows:
            chain[x, y] += 1 / 2
            move[x, y // 2] += 1 / 2
        occupancy = np.linalg.solve(np.eye(6) - self.DISCOUNT * chain, (1 - self.DISCOUNT) * move)
        np.testing.assert_allclose(occupancy.sum(axis=1), 1)
        free = np.random.default_rng(0).normal(size=(6, 1))
        self.exact = jnp.asarray(np.log(occupancy * 3) + free)

    def gradient(self, table, *, discount=DISCOUNT, transpose=False, sign=1):
        def loss(table):
            target = jax.lax.stop_gradient(table)
            matrices = (
                table[self.pair][:, self.next_pair // 2],
                table[self.pair][:, self.random],
                target[self.next_pair][:, self.random],
            )
            arguments = (m.T if transpose else m for m in matrices)
            return losses.td_infonce(*arguments, discount=discount).sum()

        return float(jnp.abs(jax.grad(loss)(sign * table)).max())

    def test_gradient_vanishes_at_the_exact_occupancy(self):
        assert self.gradient(self.exact) < 1e-6

    def test_and_nowhere_else(self):
        assert self.gradient(self.exact, sign=-1) > 0.1
        assert self.gradient(self.exact, discount=0.7) > 0.01
        assert self.gradient(self.exact, transpose=True) > 0.1
        assert self.gradient(jnp.zeros((6, 3))) > 0.01


class TestCLearning:
    def test_value_by_hand(self):
        # Odds 3 for the next state, 1 for the random one, target odds 2.
        loss = losses.c_learning([np.log(3.0)], [0.0], [LN2], discount=0.9, max_weight=20.0)
        np.testing.assert_allclose(loss, [0.1 * np.log(4 / 3) + 0.9 * 2 * LN2 + LN2], rtol=1e-6)

    def test_gradients_by_hand(self):
        def total(following, random, target):
            return losses.c_learning(following, random, target, discount=0.9, max_weight=20.0).sum()

        arguments = (jnp.array([np.log(3.0)]), jnp.array([0.0]), jnp.array([LN2]))
        following, random, target = jax.grad(total, argnums=(0, 1, 2))(*arguments)
        assert float(following[0]) == pytest.approx(0.1 * (3 / 4 - 1), rel=1e-5)
        assert float(random[0]) == pytest.approx(0.9 * 2 * (1 / 2 - 1) + 1 / 2, rel=1e-5)
        assert float(target[0]) == 0.0

    def test_weight_is_clipped(self):
        clipped = losses.c_learning([0.0], [0.0], [100.0], discount=0.5, max_weight=20.0)
        at_limit = losses.c_learning([0.0], [0.0], [np.log(20.0)], discount=0.5, max_weight=20.0)
        np.testing.assert_allclose(clipped, at_limit, rtol=1e-5)
        assert np.isfinite(clipped).all()

    def test_right_logits_beat_wrong_ones(self):
        def loss(sign):
            return float(losses.c_learning([sign * 3.0], [sign * -3.0], [-3.0], discount=0.9, max_weight=20.0)[0])

        assert loss(1) < loss(0) < loss(-1)

    def test_gradient_vanishes_at_the_true_ratio(self):
        # Two states, two equally likely: p(u|x) = (1-γ) 1[u=next] + γ p(u|x'); f = log p(u|x)/p(u).
        discount, ahead = 0.8, np.array([0.3, 0.7])
        occupancy = (1 - discount) * np.array([1.0, 0.0]) + discount * ahead
        logits = jnp.log(occupancy * 2)

        def loss(f):
            pairs = losses.c_learning(
                jnp.stack([f[0], f[0]]), f, jnp.log(ahead * 2), discount=discount, max_weight=20.0
            )
            return pairs.mean()

        np.testing.assert_allclose(jax.grad(loss)(logits), 0, atol=1e-6)
        assert np.abs(jax.grad(loss)(-logits)).max() > 0.05


@pytest.mark.parametrize("name", ["infonce", "symmetric_infonce", "binary_nce", "logsumexp_penalty"])
@pytest.mark.parametrize("shape", [(3,), (3, 2), (2, 2, 2), (), (0, 0)])
def test_wrong_shapes_are_named(name, shape):
    with pytest.raises(ValueError, match=r"logits must be \[B, B\].*got shape"):
        getattr(losses, name)(np.zeros(shape))


def test_wrong_shapes_of_the_td_losses_are_named():
    square, wide = np.zeros((3, 3)), np.zeros((3, 4))
    with pytest.raises(ValueError, match=r"random_logits must be \[B, B\].*got shape \[3, 4\]"):
        losses.td_infonce(square, wide, wide, discount=0.9)
    with pytest.raises(ValueError, match="same rows"):
        losses.td_infonce(square, np.zeros((2, 2)), np.zeros((2, 2)), discount=0.9)
    with pytest.raises(ValueError, match=r"discount must be a number or one for each row, \[3\]; got shape \[2\]"):
        losses.td_infonce(square, square, square, discount=np.zeros(2))
    with pytest.raises(ValueError, match=r"positive must hold one integer for each row"):
        losses.infonce(wide, positive=np.zeros(3))
    with pytest.raises(ValueError, match=r"counts must hold one number for each column"):
        losses.infonce(wide, positive=np.zeros(3, int), counts=np.ones(3))
    with pytest.raises(ValueError, match=r"\[B\] each; got shapes \[3\], \[3\] and \[2\]"):
        losses.c_learning(np.zeros(3), np.zeros(3), np.zeros(2), discount=0.9, max_weight=20.0)
    with pytest.raises(ValueError, match="max_weight must be positive"):
        losses.c_learning(np.zeros(3), np.zeros(3), np.zeros(3), discount=0.9, max_weight=0.0)


@pytest.mark.parametrize("name", losses.__all__)
def test_every_loss_names_its_equation_and_its_deviation(name):
    text = getattr(losses, name).__doc__
    assert "Implements:" in text
    assert "Deviates:" in text
