"""Table 1 of "Contrastive Difference Predictive Coding" (ICLR 2024): success on D4RL's AntMaze (v2), in per cent.

The authors ran TD InfoNCE and QRL; they took the other columns from the contrastive RL paper. Deviations are over five
seeds, where there are any.
"""

__all__ = ["COLUMNS", "NOTE", "PAPER"]

COLUMNS = ("td-infonce", "qrl", "contrastive-rl", "gcbc", "dt", "iql", "td3-bc")
TABLE = {
    "umaze": ("84.9 ± 1.2", "76.8 ± 2.3", "79.8 ± 1.6", "65.4", "65.6", "87.5", "78.6"),
    "umaze-diverse": ("91.7 ± 1.3", "80.1 ± 1.3", "77.6 ± 2.8", "60.9", "51.2", "62.2", "71.4"),
    "medium-play": ("86.8 ± 1.7", "76.5 ± 2.1", "72.6 ± 2.9", "58.1", "1.0", "71.2", "10.6"),
    "medium-diverse": ("82.0 ± 3.4", "73.4 ± 1.9", "71.5 ± 1.3", "67.3", "0.6", "70.0", "3.0"),
    "large-play": ("47.0 ± 2.5", "52.9 ± 2.8", "48.6 ± 4.4", "32.4", "0.0", "39.6", "0.2"),
    "large-diverse": ("55.6 ± 3.6", "51.5 ± 3.8", "54.1 ± 5.5", "36.9", "0.2", "47.5", "0.0"),
}
PAPER = {f"antmaze-{task}": dict(zip(COLUMNS, row, strict=True)) for task, row in TABLE.items()}
NOTE = (
    "The paper's figures are on D4RL's data (v2), ours on data made anew with D4RL's recipe: compare methods on one "
    "task, not ours with the paper's cell by cell. Goal-conditioned IQL is ours; the paper's IQL is told no goal. At "
    "`default` every method has the same number of updates, which is a small part of what its own paper trains, and a "
    "smaller one for some than for others."
)
