"""The settings that several agents share: range and help, once. An agent may say in other words what one does there."""

from typing import Any

from tdinfonce.agents._actor import ACTORS, TANH
from tdinfonce.networks.mlp import ACTIVATIONS
from tdinfonce.networks.pixels import TORSOS
from tdinfonce.settings import setting

__all__ = [
    "PAPER",
    "activation",
    "actor",
    "actor_future_share",
    "actor_rate",
    "actor_std",
    "actor_uniform_share",
    "average_rate",
    "cloning_weight",
    "commanded_share",
    "critic_rate",
    "critics",
    "discount",
    "expectile_level",
    "goal_hidden",
    "hidden",
    "layer_norm",
    "learn_temperature",
    "learning_rate",
    "max_weight",
    "mean_action",
    "mean_penalty",
    "min_std",
    "normalise",
    "representation_size",
    "scale_inputs",
    "share",
    "sharpness",
    "size",
    "target_rate",
    "temperature",
    "torso",
    "uniform_future",
    "weight",
]

PAPER: Any = {
    "discount": 0.99,
    "hidden": (512,) * 4,
    "goal_hidden": (512,) * 4,
    "torso": "conv",
    "average_rate": 1.0,
    "scale_inputs": False,
    "min_std": 1e-6,
    "mean_penalty": 0.0,
    "commanded_share": 0.0,
}
"""What the paper's presets of the contrastive agents share: its networks, and none of our additions."""


def share(default: float, help: str) -> Any:
    """A part of a whole, from 0 to 1."""
    return setting(default, help, high=1)


def weight(default: float, help: str) -> Any:
    """The factor of a term of a loss."""
    return setting(default, help, high=1e6)


def size(default: int, help: str) -> Any:
    """The length of a vector that a network makes."""
    return setting(default, help, low=1, high=10**5)


def learning_rate(default: float, help: str) -> Any:
    """Of Adam: about how far each parameter moves at an update."""
    return setting(default, help, above=0, high=1)


def discount(default: float, help: str = "Of the return.") -> Any:
    """Of a return, an occupancy or a law of goals."""
    return setting(default, help, below=1)


def target_rate(
    default: float, help: str = "How far the target critic moves to the critic at each update; 1: they are one."
) -> Any:
    """Of a target network."""
    return setting(default, help, above=0, high=1)


def hidden(default: tuple[int, ...], help: str = "Widths of the hidden layers of every network.") -> Any:
    """Of networks without a setting of their own."""
    return setting(default, help)


def goal_hidden(
    default: tuple[int, ...], help: str = "Widths of the hidden layers of ψ, whose input is only a goal."
) -> Any:
    """Of the network of goals."""
    return setting(default, help)


def representation_size(default: int) -> Any:
    """Of the two towers of a critic."""
    return size(default, "Length of φ and ψ.")


def critics(default: int, help: str = "Members of the critic's ensemble; the smallest logit counts.") -> Any:
    """The size of an ensemble."""
    return setting(default, help, low=1, high=100)


def normalise(default: bool, help: str = "Whether φ and ψ have length one.") -> Any:
    """Of the two towers of a critic."""
    return setting(default, help)


def temperature(default: float) -> Any:
    """Of logits."""
    return setting(default, "Logits are divided by it.", above=0, high=1e6)


def learn_temperature(default: bool) -> Any:
    """Of logits."""
    return setting(default, "Whether the temperature is learned with the critic.")


def layer_norm(default: bool, help: str = "Whether hidden layers are standardised.") -> Any:
    """Of every network."""
    return setting(default, help)


def activation(default: str) -> Any:
    """Of every network."""
    return setting(default, "What is between the layers: relu or gelu.", choices=tuple(ACTIVATIONS))


def torso(default: str) -> Any:
    """The kind of the networks that see images."""
    help = "How images are seen: conv (the paper's) or patches (ours, with less arithmetic). Vectors need none."
    return setting(default, help, choices=tuple(TORSOS))


def critic_rate(default: float, help: str = "Learning rate of the critic.") -> Any:
    """Of Adam."""
    return learning_rate(default, help)


def actor_rate(default: float, help: str = "Learning rate of the actor.") -> Any:
    """Of Adam."""
    return learning_rate(default, help)


def average_rate(default: float) -> Any:
    """Of the exponential moving averages of a policy and of a critic that can be asked."""
    help = (
        "How far the averages, by which the policy acts when no exploration is wanted and the critic is asked, move to "
        "actor and critic at each late update; 1: they are these."
    )
    return setting(default, help, above=0, high=1)


def scale_inputs(default: bool) -> Any:
    """Of every network."""
    return setting(default, "Whether inputs are scaled by mean and standard deviation of the data.")


def min_std(default: float) -> Any:
    """Of a tanh-Gaussian policy."""
    return setting(default, "Smallest standard deviation of the policy before squashing.", high=10)


def actor(default: str = TANH) -> Any:
    """The kind of a policy and what it is trained for."""
    help = (
        "tanh: a Gaussian squashed by tanh, with the agent's own objective. clipped: a Gaussian around a mean that is "
        "clipped; the value of the mean in units of its own size, and the distance to stored actions. weighted: the "
        "same policy, which clones the better actions more."
    )
    return setting(default, help, choices=ACTORS)


def actor_std(default: float = 0.2) -> Any:
    """Of a policy that is clipped."""
    help = "Standard deviation of a policy that is not tanh, where it acts by samples."
    return setting(default, help, above=0, high=10)


def cloning_weight(default: float = 0.1) -> Any:
    """Of a policy that is clipped."""
    return weight(default, "Of the actor clipped: weight of half the squared distance to the stored action.")


def actor_uniform_share(default: float = 0.0) -> Any:
    """Of the goals of a batch."""
    return share(default, "Share of later states of the episode, all alike, among the goals the actor is trained on.")


def mean_penalty(default: float) -> Any:
    """Of a tanh-Gaussian policy."""
    return weight(
        default,
        "Weight of the squared location of the policy before squashing: keeps it out of the flat part of tanh.",
    )


def mean_action(default: bool) -> Any:
    """Of a tanh-Gaussian policy."""
    return setting(default, "Whether the greedy action is the policy's mean instead of tanh(loc), which is bolder.")


def commanded_share(
    default: float, help: str = "Share of goals that were commanded among the goals the actor is trained on."
) -> Any:
    """Of the goals of a batch."""
    return share(default, help)


def actor_future_share(
    default: float, help: str = "Share of future goals among them; the others are random states."
) -> Any:
    """Of the goals of a batch."""
    return share(default, help)


def uniform_future(
    default: bool, help: str = "Whether future goals are uniform over the rest of the episode instead of geometric."
) -> Any:
    """The law of future goals."""
    return setting(default, help)


def expectile_level(
    default: float, help: str = "V is this expectile of Q over the stored actions: 0.5 is their mean, 1 their largest."
) -> Any:
    """Of a value function that looks at the best of the stored actions."""
    return setting(default, help, above=0, below=1)


def sharpness(default: float, help: str = "Inverse temperature of the advantage weights; 0 is plain cloning.") -> Any:
    """Of a policy that clones the better actions."""
    return weight(default, help)


def max_weight(default: float, help: str = "Advantage weights are clipped to this.") -> Any:
    """What keeps one row from outweighing the batch."""
    return setting(default, help, above=0, high=1e9)
