"""Mazes: a grid of cells with the shortest ways through it, and a body that MuJoCo moves in it.

Walls, bodies and maps come from gymnasium-robotics and Gymnasium; starts, goals and success are ours.
"""

import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tdinfonce.envs._simulators import load
from tdinfonce.errors import UserError
from tdinfonce.types import EnvSpec, Start, Step

__all__ = ["Body", "Cell", "Grid", "MazeEnv", "load_maze"]

Cell = tuple[int, int]
"""Row and column."""
WALL = 1


class Grid:
    """Cells of a maze, where they are, and the number of steps between them."""

    def __init__(self, walls: Sequence[Sequence[Any]], scale: float, first: Sequence[float]) -> None:
        """Read a map: 1 is a wall; ``first`` is the centre of cell (0, 0), and rows go down in y."""
        self.walls = [[int(cell == WALL) for cell in row] for row in walls]
        self.scale, self.first = float(scale), (float(first[0]), float(first[1]))
        self.cells: list[Cell] = [(r, c) for r, row in enumerate(self.walls) for c, wall in enumerate(row) if not wall]
        self._steps = {cell: self._search(cell) for cell in self.cells}

    def centre(self, cell: Cell) -> np.ndarray:
        """Where the middle of a cell is."""
        return np.array([self.first[0] + cell[1] * self.scale, self.first[1] - cell[0] * self.scale])

    def cell(self, xy: Sequence[float]) -> Cell:
        """The cell a point lies in; in a wall, the nearest free cell."""
        place = round((self.first[1] - xy[1]) / self.scale), round((xy[0] - self.first[0]) / self.scale)
        if place in self._steps:
            return place
        return min(self.cells, key=lambda cell: float(np.sum((self.centre(cell) - np.asarray(xy)) ** 2)))

    def steps(self, start: Cell, goal: Cell) -> int:
        """Cells to cross on the shortest way."""
        return self._steps[goal][start]

    def towards(self, start: Cell, goal: Cell) -> Cell:
        """The next cell on the shortest way."""
        away = self._steps[goal]
        return min((c for c in (*neighbours(start), start) if c in away), key=lambda cell: away[cell])

    def as_json(self) -> dict[str, Any]:
        """What is needed to draw it."""
        return {"walls": self.walls, "scale": self.scale, "first": list(self.first)}

    def _search(self, goal: Cell) -> dict[Cell, int]:
        away, queue, free = {goal: 0}, deque([goal]), set(self.cells)
        while queue:
            cell = queue.popleft()
            for near in neighbours(cell):
                if near in free and near not in away:
                    away[near] = away[cell] + 1
                    queue.append(near)
        return away


def neighbours(cell: Cell) -> tuple[Cell, ...]:
    """The four cells beside a cell."""
    row, column = cell
    return (row, column - 1), (row, column + 1), (row + 1, column), (row - 1, column)


class Body(NamedTuple):
    """What moves in the maze, and how its episodes begin."""

    frame_skip: int
    """Simulator steps for each action."""
    max_speed: float | None
    """Joint velocities are held within this."""
    pose: Callable[[np.random.Generator, np.ndarray, np.ndarray], None]
    """Shakes the first positions and velocities, in place."""
    start_noise: Callable[[np.random.Generator], np.ndarray]
    """Where in its cell a free start lies, from the centre."""
    goal_noise: Callable[[np.random.Generator], np.ndarray]
    """Where in its cell a goal lies, from the centre."""


class MazeEnv:
    """A body in a maze, told to reach a point: observation = positions and velocities, goal = xy. Never terminates."""

    def __init__(
        self,
        spec: EnvSpec,
        grid: Grid,
        model: Any,
        body: Body,
        pick: Callable[[np.random.Generator], tuple[Cell, Cell, bool]],
        *,
        render: bool,
    ) -> None:
        """Take a compiled model; ``pick`` draws start, goal and whether the start lies anywhere in its cell."""
        import mujoco

        self.spec, self.grid = spec, grid
        self._mujoco, self._model, self._data = mujoco, model, mujoco.MjData(model)
        self._body, self._pick, self._render = body, pick, render
        self._target = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, "target")
        self._renderer: Any = None

    def reset(self, seed: int) -> Start:
        """Start the evaluation episode that belongs to ``seed``."""
        rng = np.random.default_rng(seed)
        start, goal, anywhere = self._pick(rng)
        return self.begin(rng, start, goal, anywhere=anywhere)

    def begin(self, rng: np.random.Generator, start: Cell, goal: Cell, *, anywhere: bool = True) -> Start:
        """Start an episode between two cells; all chance comes from ``rng``."""
        data = self._data
        self._mujoco.mj_resetData(self._model, data)
        self._body.pose(rng, data.qpos, data.qvel)
        data.qpos[:2] += self.grid.centre(start) + (self._body.start_noise(rng) if anywhere else 0.0)
        self.aim(rng, goal)
        self._mujoco.mj_forward(self._model, data)
        self._time = 0
        observation = self._observation()
        return Start(observation, observation[:2], self._goal.astype(np.float32), self._distance())

    def aim(self, rng: np.random.Generator, goal: Cell) -> np.ndarray:
        """Put the goal into another cell; the episode goes on."""
        self._goal = self.grid.centre(goal) + self._body.goal_noise(rng)
        self._model.site_pos[self._target][:2] = self._goal
        return self._goal.astype(np.float32)

    def step(self, action: np.ndarray) -> Step:
        """Take one action in [-1, 1]."""
        data, speed = self._data, self._body.max_speed
        if speed is not None:
            np.clip(data.qvel, -speed, speed, out=data.qvel)
        data.ctrl[:] = np.clip(np.asarray(action, np.float64), -1, 1)
        self._mujoco.mj_step(self._model, data, nstep=self._body.frame_skip)
        self._time += 1
        observation, distance = self._observation(), self._distance()
        tolerance = self.spec.tolerance or 0.0
        return Step(
            observation, observation[:2], distance < tolerance, distance, self._time >= self.spec.episode_length
        )

    def render(self) -> np.ndarray:
        """The maze from above; the goal is the red ball."""
        if not self._render:
            raise UserError(f"{self.spec.name} was made without rendering")
        try:
            if self._renderer is None:
                self._renderer = _camera(self._model, self._data, self.grid)
            self._mujoco.mj_forward(self._model, self._data)
            return np.asarray(self._renderer.render("rgb_array"))
        except Exception as error:  # each graphics library fails in its own way
            raise UserError(
                f"cannot render {self.spec.name}: {type(error).__name__}: {error}; "
                "install libegl1 (or libosmesa6 and set MUJOCO_GL=osmesa)"
            ) from error

    def close(self) -> None:
        """Free the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _observation(self) -> np.ndarray:
        return np.concatenate([self._data.qpos, self._data.qvel], dtype=np.float32, casting="same_kind")

    def _distance(self) -> float:
        x, y = self._data.qpos[0] - self._goal[0], self._data.qpos[1] - self._goal[1]
        return float((x * x + y * y) ** 0.5)


def load_maze(
    agent_xml: str, maze_map: Sequence[Sequence[Any]], scale: float, height: float, *, from_corner: bool, render: bool
) -> tuple[Grid, Any]:
    """Let gymnasium-robotics build the walls around a body, and compile the model.

    Args:
        agent_xml: the file that describes the body.
        maze_map: rows of cells, 1 for a wall.
        scale: length of a cell.
        height: of the walls, in cells.
        from_corner: D4RL's coordinates: cell (1, 1) is the origin and y grows with the row. Else the middle of the
            maze is the origin and y falls with the row.
        render: whether pictures will be asked for.
    """
    if render and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")  # before the simulator is imported: its default needs a display
    mujoco, Maze = load("mujoco"), load("gymnasium_robotics.envs.maze.maze_v4").Maze

    class FromCorner(Maze):  # type: ignore[misc, valid-type]
        def __init__(self, rows: Any, size: float, tall: float) -> None:
            super().__init__(rows, size, tall)
            self._x_map_center, self._y_map_center = 1.5 * size, (len(rows) - 1.5) * size

    rows = [list(row) for row in (reversed(maze_map) if from_corner else maze_map)]
    maze, path = (FromCorner if from_corner else Maze).make_maze(agent_xml, rows, scale, height)
    try:
        model = mujoco.MjModel.from_xml_path(path)
    finally:
        os.unlink(path)
    return Grid(rows, scale, maze.cell_rowcol_to_xy(np.array([0, 0]))), model


def _camera(model: Any, data: Any, grid: Grid) -> Any:
    """A camera above the middle of the maze."""
    from gymnasium.envs.mujoco.mujoco_rendering import MujocoRenderer

    rows, columns = len(grid.walls), len(grid.walls[0])
    middle = (grid.centre((0, 0)) + grid.centre((rows - 1, columns - 1))) / 2
    height, width = 400, round(400 * columns / rows)
    model.vis.global_.offwidth, model.vis.global_.offheight = max(width, 640), max(height, 480)
    view = {
        "distance": 1.25 * rows * grid.scale,
        "azimuth": 90.0,
        "elevation": -90.0,
        "lookat": np.array([*middle, 0.0]),
    }
    return MujocoRenderer(model, data, default_cam_config=view, width=width, height=height)
