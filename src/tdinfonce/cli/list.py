"""`tdinfonce list`."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from tdinfonce.errors import UserError

__all__ = ["Command"]


@dataclass(frozen=True)
class Command:
    """List agents, environments and presets, or the settings of one agent."""

    settings: str | None = None
    """Name of an agent: list every setting of it and of the training, with the value in each preset."""
    env: str | None = None
    """With --settings: the values in this environment, which may change some of the preset's."""

    def run(self) -> int:
        """Print."""
        if self.settings is not None:
            return self._settings(self.settings)
        if self.env is not None:
            raise UserError("--env goes with --settings AGENT")
        return self._names()

    def _names(self) -> int:
        from tdinfonce import agents, envs

        print("agents")
        for name in agents.names():
            module = agents.load(name)
            print(f"  {name:<26} {(module.__doc__ or '').strip().splitlines()[0]}")
        print("\nenvironments (or the id of any Gymnasium goal environment)")
        for name, module_name in sorted(envs.names().items()):
            if not hasattr(_module(module_name), "LISTED"):
                about = _module(module_name).NAMES[name]
                print(f"  {name:<26} {about}; goal spaces: {', '.join(envs.goal_spaces(name))}")
        for module in map(_module, sorted(set(envs.names().values()))):
            for name, about in getattr(module, "LISTED", {}).items():
                print(f"  {name}\n  {'':<26} {about}; goal spaces: {', '.join(module.goal_spaces(name))}")
        print("\npresets\n  fast                       what works best on a CPU in minutes; the default")
        print("  paper                      the paper's hyper-parameters")
        print("  estimate                   for probabilities that are right, rather than control (td-infonce)")
        print("  release                    those of the paper's code, where they differ (td-infonce, offline)")
        return 0

    def _settings(self, agent: str) -> int:
        from tdinfonce import agents, envs
        from tdinfonce.plans.plan import starting_point

        where = f" on {self.env}" if self.env else ""
        if self.env:
            envs.goal_spaces(self.env)  # an unknown name should fail first
        for kind, offline in (("online", False), ("offline", True)):
            if not offline and not hasattr(agents.load(agent), "PRESETS"):
                continue
            presets = agents.presets(agent, offline=offline)
            found = {name: starting_point(self.env or "", agent, name, offline=offline) for name in presets}
            for index, part in enumerate((f"agent {agent}", "training")):
                print(f"{part}, {kind}{where} (change with --set name=value)")
                _print_settings({name: configs[index] for name, configs in found.items()})
        return 0


def _print_settings(presets: dict[str, Any]) -> None:
    from tdinfonce.settings import describe

    first = next(iter(presets.values()))
    texts = describe(type(first))
    for field in dataclasses.fields(first):
        values = ", ".join(f"{name} {_text(getattr(preset, field.name))}" for name, preset in presets.items())
        print(f"  {field.name:<22} {texts[field.name]} [{values}]")
    print()


def _module(name: str) -> Any:
    import importlib

    return importlib.import_module(f"tdinfonce.envs.{name}")


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
