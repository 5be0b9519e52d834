"""The language data that ships (WordNet's table, Punkt's parameters, Unicode classes) and the script that makes it."""

from __future__ import annotations

import random
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ROOT

from tunecheck.evaluators._text import words

SCRIPT = ROOT / "scripts" / "build_text_data.py"
SHIPPED = files("tunecheck.evaluators._text").joinpath("data")
FILES = ("wordnet.txt", "punkt_english.txt", "unicode_classes.txt")


@pytest.fixture(scope="module")
def nltk_wordnet(shared_data: Path) -> Iterator[Any]:
    import nltk.corpus

    nltk.data.path.insert(0, str(shared_data / "nltk_data"))
    yield nltk.corpus.wordnet
    nltk.data.path.pop(0)


def usable(names: list[str]) -> frozenset[str]:
    """Of a synset's names those that a lower-case token can equal."""
    return frozenset(name for name in names if "_" not in name and name == name.lower())


def assert_same_synonyms(forms: list[str], nltk_wordnet: Any) -> None:
    for form in forms:
        theirs = {name for synset in nltk_wordnet.synsets(form) for name in usable(synset.lemma_names())}
        assert words.synonyms(form) == {form, *theirs}, form


@pytest.mark.slow
def test_every_lemma_of_one_word_has_the_synonyms_of_nltks_reader(nltk_wordnet: Any) -> None:
    lemmas = sorted({lemma for lemma in nltk_wordnet.all_lemma_names() if "_" not in lemma})
    assert len(lemmas) == 83_118  # all of WordNet 3.0's
    assert_same_synonyms(lemmas, nltk_wordnet)


@pytest.mark.slow
def test_inflected_and_irregular_forms_have_the_synonyms_of_nltks_reader(nltk_wordnet: Any) -> None:
    lemmas = sorted(nltk_wordnet.all_lemma_names())
    chosen = random.Random(7).sample(lemmas, 12_000)
    endings = ("s", "es", "ed", "ing", "er", "est", "ies", "ses", "ves", "men")
    inflected = [lemma + ending for lemma in chosen for ending in endings]
    shortened = [lemma[:-1] + ending for lemma in chosen for ending in ("ing", "ed", "er", "ies", "est", "ves")]
    irregular = [form for forms in nltk_wordnet._exception_map.values() for form in forms]
    assert_same_synonyms([*chosen, *inflected, *shortened, *irregular], nltk_wordnet)


def test_synonyms_are_found_over_irregular_and_regular_forms() -> None:
    assert "automobile" in words.synonyms("cars")  # morphy: -s
    assert "travel" in words.synonyms("went")  # verb.exc: went go
    assert "good" in words.synonyms("best")  # adj.exc: best good
    assert words.synonyms("xyzzy") == {"xyzzy"}


def build(out: Path, **sources: Path) -> dict[str, bytes]:
    arguments = [argument for name, path in sources.items() for argument in (f"--{name}", str(path))]
    subprocess.run([sys.executable, str(SCRIPT), *arguments, "--out", str(out)], check=True, capture_output=True)
    return {name: (out / name).read_bytes() for name in FILES}


def unpacked(archive: Path, folder: Path) -> Path:
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(folder)
    return folder


def test_the_script_makes_the_shipped_files_byte_for_byte_of_the_public_ones(shared_data: Path, tmp_path: Path) -> None:
    data = shared_data / "nltk_data"
    made = build(
        tmp_path / "out",
        wordnet=unpacked(data / "corpora" / "wordnet.zip", tmp_path) / "wordnet",
        punkt=data / "tokenizers" / "punkt_tab.zip",
        classes=data / "misc" / "perluniprops.zip",
    )
    for name in FILES:
        assert made[name] == SHIPPED.joinpath(name).read_bytes(), name


def small_sources(folder: Path) -> dict[str, Path]:
    """Four synsets in the format of wndb(5WN), with the CR LF ends of one of the public packages."""
    nothing = {f"{kind}.{part}": "" for kind in ("data", "index") for part in ("verb", "adv")} | {
        f"{part}.exc": "" for part in ("verb", "adj", "adv")
    }
    wordnet_files = nothing | {
        "data.noun": (
            "  1 This software and database is being provided to you\r\n"
            "00000010 06 n 03 car 0 auto 0 motor_car 0 000 | a motor vehicle\r\n"
            "00000020 15 n 01 Paris 0 000 | the capital\r\n"
            "00000030 06 n 02 goose 0 Anser 0 000 | a bird\r\n"
        ),
        "index.noun": (
            "auto n 1 0 1 1 00000010\r\ncar n 1 0 1 1 00000010\r\nmotor_car n 1 0 1 1 00000010\r\n"
            "goose n 1 0 1 1 00000030\r\nanser n 1 0 1 1 00000030\r\nparis n 1 0 1 1 00000020\r\n"
        ),
        "noun.exc": "geese goose\r\noxen ox\r\n",
        "data.adj": "00000010 00 a 02 glad(p) 0 happy 0 000 | pleased\r\n",
        "index.adj": "glad a 1 0 1 1 00000010\r\nhappy a 1 0 1 1 00000010\r\n",
    }
    others = {
        "punkt": {
            "abbrev_types.txt": "mr\n",
            "sent_starters.txt": "the\n",
            "collocations.tab": "a\tb\n",
            "ortho_context.tab": "the\t46\nmr\t8\n",
        },
        "classes": {"Number.txt": "0123٣\n", "Punctuation.txt": "!-\n", "Symbol.txt": "+€\n"},
    }
    for name, contents in {"wordnet": wordnet_files, **others}.items():
        (folder / name).mkdir()
        for file, text in contents.items():
            (folder / name / file).write_bytes(text.encode())
    return {name: folder / name for name in ("wordnet", "punkt", "classes")}


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    sources = small_sources(tmp_path)
    assert build(tmp_path / "one", **sources) == build(tmp_path / "two", **sources)


def test_the_table_holds_only_what_a_lower_case_token_can_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = build(tmp_path / "out", **small_sources(tmp_path))["wordnet.txt"].decode().splitlines()
    assert table == sorted(table)
    assert [line for line in table if "!" not in line] == [
        "anser n goose", "auto n = car", "car n = auto", "glad a = happy", "goose n =", "happy a = glad",
        "motor_car n auto car",
    ]  # fmt: skip

    monkeypatch.setattr(words, "_wordnet", lambda: table)
    synonyms = words._remembered_synonyms.__wrapped__
    assert synonyms("cars") == {"cars", "car", "auto"}
    assert synonyms("motor_car") == {"motor_car", "car", "auto"}
    assert synonyms("geese") == {"geese", "goose"}
    assert synonyms("anser") == {"anser", "goose"}
    assert synonyms("gladest") == {"gladest", "glad", "happy"}
    assert synonyms("paris") == {"paris"}
    assert synonyms("oxen") == {"oxen"}


def test_character_classes_are_written_as_ranges(tmp_path: Path) -> None:
    made = build(tmp_path / "out", **small_sources(tmp_path))["unicode_classes.txt"]
    assert made.decode() == "number 30-33 663-663\npunctuation 21-21 2d-2d\nsymbol 2b-2b 20ac-20ac\n"


def test_a_source_that_lacks_a_file_is_named(tmp_path: Path) -> None:
    sources = small_sources(tmp_path)
    (sources["punkt"] / "collocations.tab").unlink()
    arguments = [argument for name, path in sources.items() for argument in (f"--{name}", str(path))]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments, "--out", str(tmp_path / "out")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.strip() == f"{sources['punkt']}: holds no collocations.tab"


def test_the_data_carries_wordnets_licence_and_stays_small() -> None:
    licence = SHIPPED.joinpath("WORDNET-LICENSE.txt").read_text()
    assert "WordNet 3.0 Copyright 2006 by Princeton University" in licence
    assert "Permission to use, copy, modify and distribute" in licence
    assert sum(len(SHIPPED.joinpath(name).read_bytes()) for name in FILES) < 3_500_000
