"""A setting is declared once: name, type, default, help and range stand together, and everything else is derived.

A config is a frozen dataclass that inherits from `Settings`. Bad values are refused wherever one is built.
"""

import dataclasses
import itertools
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from tdinfonce.errors import UserError, nearest

__all__ = ["Settings", "apply", "describe", "from_json", "parse", "setting", "words"]

MOST = 10**12
"""No number of ours is larger."""
MOST_WIDTH = 65_536
"""Of a layer."""
MOST_WEIGHTS = 10**8
"""Of the layers that one setting names."""


@dataclasses.dataclass(frozen=True)
class Range:
    """Help and bounds of a setting."""

    help: str
    low: float = 0
    high: float = MOST
    above: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()

    def problem(self, value: Any) -> str:
        """What is wrong with a number, or nothing."""
        if self.above is not None and not value > self.above:
            return f"must be above {self.above:g}" if self.above else "must be positive"
        if self.below is not None and not (self.low <= value < self.below):
            return f"must be at least {self.low:g} and below {self.below:g}"
        if (self.low, self.high) == (0, 1) and not 0 <= value <= 1:
            return "must lie between 0 and 1"
        if not value >= self.low:
            return f"must be at least {self.low:g}" if self.low else "must not be negative"
        return f"must be at most {self.high:,}" if not value <= self.high else ""


def setting(
    default: Any,
    help: str,
    *,
    low: float = 0,
    high: float = MOST,
    above: float | None = None,
    below: float | None = None,
    choices: Sequence[str] = (),
) -> Any:
    """Declare a field of a config.

    Args:
        default: its value unless somebody says otherwise.
        help: what it does, for the reader of ``tdinfonce list --settings``.
        low: smallest value.
        high: largest value.
        above: values must be larger than this.
        below: values must be smaller than this.
        choices: the words that a text may be.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Config(Settings):
    ...     discount: float = setting(0.95, "Of the return.", below=1)
    >>> Config(discount=2)
    Traceback (most recent call last):
    tdinfonce.errors.UserError: discount must be at least 0 and below 1; got 2
    """
    about = Range(help, low, high, above, below, tuple(choices))
    return dataclasses.field(default=default, metadata={"range": about})


class Settings:
    """What every config inherits: no value out of its range, no value of another type."""

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        kinds = _kinds(type(self))
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            _check(field, kinds[field.name], getattr(self, field.name))
        self.check()

    def check(self) -> None:
        """Rules between settings; raises UserError."""


def describe(kind: type) -> dict[str, str]:
    """The help of each field of a config."""
    return {field.name: field.metadata["range"].help for field in dataclasses.fields(kind)}


def apply(configs: Sequence[Any], settings: Mapping[str, Any]) -> list[Any]:
    """The configs with some of their settings changed; an unknown name or a bad value raises UserError.

    Texts are parsed as the type of their setting, so the words of a command line will do.
    """
    fields = {f.name: index for index, config in enumerate(configs) for f in dataclasses.fields(config)}
    changes: list[dict[str, Any]] = [{} for _ in configs]
    for word, value in settings.items():
        name = word.replace("-", "_")
        if name not in fields:
            raise nearest("setting", name, fields)
        kind = _kinds(type(configs[fields[name]]))[name]
        changes[fields[name]][name] = parse(name, value, kind) if isinstance(value, str) else _plain(value, kind)
    return [dataclasses.replace(config, **change) for config, change in zip(configs, changes, strict=True)]


def words(settings: Sequence[str]) -> dict[str, str]:
    """Settings as a command line has them, ``name=value``, by name; `apply` parses the values.

    >>> words(["discount=0.9", "hidden=8,8"])
    {'discount': '0.9', 'hidden': '8,8'}
    """
    found = {}
    for word in settings:
        name, equals, text = word.partition("=")
        if not equals:
            raise UserError(f"a setting is written name=value; got '{word}'")
        found[name.replace("-", "_")] = text
    return found


def parse(name: str, text: str, kind: Any) -> Any:
    """The value that a text stands for, as the type of its setting."""
    try:
        if kind is bool:
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[text.lower()]
        if kind is int:
            return int(text.replace("_", ""))
        if kind is float:
            return float(text)
        if kind is str:
            return text
        return tuple(int(part) for part in text.strip("()").split(",") if part.strip())
    except (ValueError, KeyError):
        raise UserError(f"{name} must be {_wanted(kind)}; got '{text}'") from None


def from_json(kind: Any, values: Mapping[str, Any]) -> Any:
    """A dataclass from its JSON values; lists become tuples. Raises TypeError if a field is of another type."""
    made = kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})
    for name, wanted in _kinds(kind).items():
        if not _fits(getattr(made, name), wanted):
            raise TypeError(f"{name} cannot be {getattr(made, name)!r}")
    return made


def _kinds(config: type) -> dict[str, Any]:
    return {
        name: kind for name, kind in typing.get_type_hints(config).items() if typing.get_origin(kind) != typing.ClassVar
    }


def _plain(value: Any, kind: Any) -> Any:
    """What a user writes as a matter of course: a list for a tuple, one width, a number of numpy's, a whole float."""
    if isinstance(value, list | tuple):
        return tuple(_plain(x, int) for x in value)
    value = value.item() if hasattr(value, "item") else value
    if typing.get_origin(kind) is tuple and type(value) is int:
        return (value,)
    return int(value) if kind is int and isinstance(value, float) and value.is_integer() else value


def _check(field: Any, kind: Any, value: Any) -> None:
    name, about = field.name, field.metadata.get("range")
    if not _fits(value, kind):
        raise UserError(f"{name} must be {_wanted(kind)}; got {value!r}")
    if about is None:
        return
    if about.choices and value not in about.choices:
        raise nearest(name.replace("_", " "), value, about.choices)
    if isinstance(value, tuple):
        if not value or min(value) < 1:
            raise UserError(f"{name} must name at least one width, such as 256,256; got {value}")
        if max(value) > MOST_WIDTH:
            raise UserError(f"{name} names a width above {MOST_WIDTH:,}; got {value}")
        if sum(a * b for a, b in itertools.pairwise((1, *value))) > MOST_WEIGHTS:
            raise UserError(f"{name} asks for more than {MOST_WEIGHTS:,} weights; got {value}")
    elif isinstance(value, int | float) and not isinstance(value, bool) and (problem := about.problem(value)):
        raise UserError(f"{name} {problem}; got {value}")


def _wanted(kind: Any) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}.get(
        kind, "numbers like 256,256"
    )


def _fits(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    inner = typing.get_args(kind)
    if typing.get_origin(kind) is tuple:
        return isinstance(value, tuple) and all(_fits(x, inner[0]) for x in value)
    if typing.get_origin(kind) is dict:
        return isinstance(value, dict) and all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    if inner:
        return any(_fits(value, each) for each in inner)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is kind
