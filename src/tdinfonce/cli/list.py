"""`tdinfonce list`."""

import dataclasses
from dataclasses import dataclass
from typing import Any

__all__ = ["Command"]


@dataclass(frozen=True)
class Command:
    """List agents, environments and presets, or the settings of one agent."""

    settings: str | None = None
    """Name of an agent: list every setting of it and of the training, with the value in each preset."""

    def run(self) -> int:
        """Print."""
        return self._settings(self.settings) if self.settings is not None else self._names()

    def _names(self) -> int:
        from tdinfonce import agents, envs

        print("agents")
        for name in agents.names():
            module = agents.load(name)
            print(f"  {name:<26} {(module.__doc__ or '').strip().splitlines()[0]}")
        print("\nenvironments (or the id of any Gymnasium goal environment)")
        for name, module_name in sorted(envs.names().items()):
            about = _module(module_name).NAMES[name]
            print(f"  {name:<26} {about}; goal spaces: {', '.join(envs.goal_spaces(name))}")
        print("\npresets\n  fast                       what works best on a CPU in minutes; the default")
        print("  paper                      the paper's hyper-parameters")
        print("  release                    those of the paper's code, where they differ (td-infonce, offline)")
        return 0

    def _settings(self, agent: str) -> int:
        from tdinfonce import agents
        from tdinfonce.training import offline, online
        from tdinfonce.training.recipe import field_help

        module = agents.load(agent)
        sections = [(f"agent {agent}, offline", module.Config, agents.presets(agent, offline=True))]
        sections += [("offline training", offline.OfflineConfig, offline.PRESETS)]
        if hasattr(module, "PRESETS"):
            online_sections = [(f"agent {agent}", module.Config, module.PRESETS)]
            sections = [*online_sections, ("training", online.OnlineConfig, online.PRESETS), *sections]
        for title, kind, presets in sections:
            print(f"{title} (change with --set name=value)")
            texts = field_help(kind)
            for field in dataclasses.fields(kind):
                values = ", ".join(f"{name} {_text(getattr(preset, field.name))}" for name, preset in presets.items())
                print(f"  {field.name:<22} {texts[field.name]} [{values}]")
            print()
        return 0


def _module(name: str) -> Any:
    import importlib

    return importlib.import_module(f"tdinfonce.envs.{name}")


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
