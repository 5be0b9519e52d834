"""How random calls draw their arguments for GorillaFileSystem, MathAPI, MessageAPI and TwitterAPI, by parameter."""

from __future__ import annotations

import random
from typing import Any

from checks.simulator_differential import Draw

__all__ = ["DRAWS"]

UNITS = ["km", "m", "cm", "mm", "um", "nm", "in", "ft", "yd", "miles", "lb", "kg", "celsius", "fahrenheit", "stone"]


def entry(chance: random.Random, simulator: Any) -> Any:
    return chance.choice([*simulator._volume.current.contents, "n1", "n2", "x.txt", "."])


def directory(chance: random.Random, simulator: Any) -> Any:
    here = simulator._volume.current.contents
    return chance.choice([*(name for name, each in here.items() if hasattr(each, "contents")), "..", "..", "/", "p"])


def path(chance: random.Random, simulator: Any) -> Any:
    steps = [entry(chance, simulator) for _ in range(chance.randint(0, 2))]
    return chance.choice(["", "/", "./", "."]) + "/".join(steps) + chance.choice(["", "", "/"])


def number(chance: random.Random, _: Any) -> Any:
    drawn: list[Any] = [
        chance.randint(-20, 20),
        chance.uniform(-100, 100),
        round(chance.uniform(0, 1000), 2),
        chance.random(),
        10.0 ** chance.randint(-300, 300),
        10 ** chance.randint(0, 40),
        2 ** chance.randint(0, 60),
        chance.choice([0, 1, -1, 1.0, 10, "5", "2.5", "-3", "1/3", "1e5"]),
    ]
    return chance.choice(drawn)


def numbers(chance: random.Random, simulator: Any) -> list[Any]:
    return [number(chance, simulator) for _ in range(chance.randint(0, 6))]


def digits(chance: random.Random, _: Any) -> int:
    return chance.choice([0, 1, 2, 3, 5, 8, 10, 14, 15, 16, 20, 30, 50, 100, 200, -1, -5, chance.randint(1, 60)])


def unit(chance: random.Random, _: Any) -> str:
    return chance.choice(UNITS)


def user_id(chance: random.Random, simulator: Any) -> Any:
    return chance.choice([*simulator.state()["user_map"].values(), "USR009"])


def user_name(chance: random.Random, simulator: Any) -> Any:
    return chance.choice([*simulator.state()["user_map"], f"P{chance.randint(0, 9)}"])


def tweet_id(chance: random.Random, simulator: Any) -> Any:
    return chance.choice([*simulator.state()["tweets"], simulator.state()["tweet_counter"], 99])


DRAWS: dict[str, dict[str, Draw]] = {
    "GorillaFileSystem": {
        **dict.fromkeys(["file_name", "source", "destination", "file_name1", "file_name2"], entry),
        "folder": directory,
        "path": path,
        "dir_name": lambda chance, simulator: chance.choice(["p", "q", "r", entry(chance, simulator)]),
    },
    "MathAPI": {
        **dict.fromkeys(["a", "b", "number", "value", "base", "part", "whole"], number),
        "numbers": numbers,
        "precision": digits,
        "exponent": lambda chance, _: chance.choice([chance.randint(-5, 9), chance.uniform(-3, 3), 0.5]),
        "decimal_places": lambda chance, _: chance.randint(-5, 8),
        "unit_in": unit,
        "unit_out": unit,
    },
    "MessageAPI": {"user_id": user_id, "receiver_id": user_id, "user": user_name, "user_name": user_name},
    "TwitterAPI": {
        "tweet_id": tweet_id,
        "username": lambda chance, simulator: chance.choice([simulator.state()["username"], "x"]),
        "password": lambda chance, simulator: chance.choice([simulator.state()["password"], "x"]),
    },
}
