"""What a real history says of the prior's factors: which commits were named as the cause of a fault later.

`python -m benchmarks.bisect.prior --clones DIR`: DIR holds bare clones of 1CatAI/1Cat-vLLM and
vllm-project/vllm-ascend, see `benchmarks.bisect.real`. A commit counts as a cause when a later one takes it back, or
says that its pull request introduced, caused or broke something. For each feature: how many of the causes have it, how
many of all commits.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection
from pathlib import Path

from benchmarks.bisect.cases import ASCEND, CAT
from benchmarks.bisect.clones import ask_git, find_clone
from patchkit.stack.paths import is_native
from patchkit.tools.git.history import commits_touching
from patchkit.tools.git.objects import Repository
from patchkit.tools.git.reverts import find_taken_back, read_titles, take_turns

PULL = re.compile(r"\(#(\d+)\)\s*$")
BLAMED = re.compile(
    r"(?:introduced|regress\w*|caused|broke\w*)\s+(?:\w+\s+){0,4}?(?:by|in|from|since|after|with)?\s*(?:PR\s*)?#(\d+)",
    re.IGNORECASE,
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clones", type=Path, required=True, metavar="DIR")
    clones = parser.parse_args().clones
    print(f"{'history':<26} {'feature':<12} {'of the causes':>16} {'of all commits':>18}")
    for name in (CAT, ASCEND):
        for feature, causes, every in count_features(find_clone(clones, name)):
            print(f"{name:<26} {feature:<12} {_share(*causes):>16} {_share(*every):>18}")


def count_features(clone: Path) -> list[tuple[str, tuple[int, int], tuple[int, int]]]:
    """Return each feature with (how many have it, of how many) among the causes and among all commits."""
    repository = Repository(clone)
    root = ask_git(clone, "rev-list", "--max-parents=0", "HEAD").split()[-1]
    ends = (root, ask_git(clone, "rev-parse", "HEAD").strip())
    titles = read_titles(repository, *ends)
    taken_back = find_taken_back(titles, titles)
    causes = taken_back | find_blamed(clone, {one.commit: one.title for one in titles})
    features: dict[str, Collection[str]] = {
        "turns": take_turns(titles),
        "taken back": taken_back,
        "native": commits_touching(repository, *ends, is_native),
    }
    return [
        (name, (len(causes & set(having)), len(causes)), (len(having), len(titles)))
        for name, having in features.items()
    ]


def find_blamed(clone: Path, titles: dict[str, str]) -> frozenset[str]:
    """Return the commits whose pull request another commit names as what introduced, caused or broke something."""
    pulls = {found[1]: commit for commit, title in titles.items() if (found := PULL.search(title))}
    blamed = set()
    for entry in ask_git(clone, "log", "--format=%x01%H%x00%s%n%b", "HEAD").split("\x01")[1:]:
        commit, text = entry.split("\0", 1)
        blamed |= {pulls[number] for number in BLAMED.findall(text) if pulls.get(number, commit) != commit}
    return frozenset(blamed)


def _share(having: int, count: int) -> str:
    return f"{having} of {count}, {100 * having / max(count, 1):.1f} %"


if __name__ == "__main__":
    main()
