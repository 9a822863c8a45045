"""The price of n-step bootstrapping (ours, not the paper's): how far off it is when others made the data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tdinfonce.analysis import tabular as draw
from tdinfonce.analysis.style import new_figure, save
from tdinfonce.experiments import Experiment
from tdinfonce.tabular.gridworld import gridworld
from tdinfonce.tabular.mdp import Mdp, Table, action_values, exact_occupancy, uniform_policy
from tdinfonce.tabular.theory import n_step_occupancy

TITLE = "The bias of n-step TD InfoNCE on a gridworld"


@dataclass(frozen=True)
class NStep:
    """Which policies and how many steps."""

    steps: tuple[int, ...] = (1, 2, 3, 5, 10, 20, 50)
    """Values of n."""
    uniform_shares: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5, 1.0)
    """Behaviours: the policy for the same goal with this share of its actions drawn uniformly."""
    discount: float = 0.95
    """Of the occupancy."""


BUDGETS = {"smoke": NStep(steps=(1, 5), uniform_shares=(0.0, 0.3)), "default": NStep(), "paper": NStep()}


def greedy_policy(mdp: Mdp, goal: int, discount: float) -> Table:
    """The policy that reaches the goal soonest and stays; equally good actions share the chance."""
    reward = np.zeros((mdp.n_states, mdp.n_actions))
    reward[goal] = 1.0
    policy = uniform_policy(mdp)
    for _ in range(mdp.n_states):
        values = action_values(mdp, policy, reward, discount)
        best = np.isclose(values, values.max(axis=1, keepdims=True), rtol=1e-9, atol=1e-12)
        policy = best / best.sum(axis=1, keepdims=True)
    return policy


def run(
    config: NStep, seeds: Sequence[int], log: Callable[[dict[str, Any]], None], advance: Callable[[int], None]
) -> None:
    """Solve for the fixed points; the same goals for every behaviour, and one behaviour for another goal."""
    mdp = gridworld()
    goals = range(mdp.n_states)
    policies = [greedy_policy(mdp, goal, config.discount) for goal in goals]
    for share in (*config.uniform_shares, None):
        for n in config.steps:
            errors, reach = [], []
            for goal in goals:
                policy = policies[goal]
                if share is None:
                    behaviour = policies[(goal + mdp.n_states // 2) % mdp.n_states]
                else:
                    behaviour = (1 - share) * policy + share * uniform_policy(mdp)
                found = n_step_occupancy(mdp, behaviour, policy, config.discount, n)
                exact = exact_occupancy(mdp, policy, config.discount)
                errors.append(np.mean(np.abs(found - exact)))
                reach.append(np.mean(found[:, :, goal]) / np.mean(exact[:, :, goal]))
            name = "the policy for another goal" if share is None else f"the policy, {share:.0%} uniform"
            base = {"phase": "evaluate", "method": name, "discount": config.discount, "seed": 0, "n": n}
            log(base | {"error": float(np.mean(errors)), "reach": float(np.mean(reach))})
            advance(1)


def report(folder: Path) -> None:
    """Draw bias and believed success against n."""
    results = draw.Results(folder)
    names, steps = results.values("method"), results.values("n")
    figure, axes = new_figure(1, 2, width=4.8)
    rows = []
    for name in names:
        found = {row["n"]: row for row in draw.select(results.evaluated, method=name)}
        axes[0, 0].plot(steps, [max(found[n]["error"], 1e-17) for n in steps], marker="o", label=name)
        axes[0, 1].plot(steps, [found[n]["reach"] for n in steps], marker="o", label=name)
        rows.append([name, *(f"{found[n]['error']:.4f} / {found[n]['reach']:.2f}" for n in steps)])
    axes[0, 0].set(xscale="log", xlabel="n", ylabel="mean absolute error of the occupancy", ylim=(0, None))
    axes[0, 1].set(xscale="log", xlabel="n", ylabel="believed / true time at the goal", ylim=(0, 1.05))
    for axis in axes[0]:
        axis.set_xticks(steps, [str(n) for n in steps], minor=False)
        axis.minorticks_off()
    axes[0, 1].legend(fontsize=8, title="who made the data", loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.suptitle(TITLE)
    save(figure, folder)
    parts = [
        "Fixed points by linear algebra, so no sampling error is in these numbers. The policy asked about walks to a "
        "goal and stays; the mean is over all 25 goals. Each entry: mean absolute error of the occupancy, and the time "
        "at the goal that is believed, as a share of the true one. The paper has n = 1, larger n is ours.",
        draw.markdown_table(["data made by", *(f"n = {n}" for n in steps)], rows),
    ]
    draw.write_table(folder, TITLE, parts)


EXPERIMENT = Experiment(
    shows="what n-step bootstrapping (our extension) costs in accuracy when another policy made the data",
    paper="not in the paper",
    duration={"smoke": "1 s", "default": "10 s", "paper": "10 s"},
    budgets=BUDGETS,
    run=run,
    work=lambda config, seeds: (len(config.uniform_shares) + 1) * len(config.steps),
    report=report,
    seeds={"smoke": 1, "default": 1, "paper": 1},
)
