"""Draws small changes of both packages by a seed, and prints those that no test catches.

`python -m tests.mutations --seed 7 --count 60` changes one place at a time in copies of the tree,
and runs the tests of the mirror folder, then those of the room, then all, until one fails.
Appends verdicts to a file of JSON lines, where the next run with the same seed continues.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import cache_from_source
from itertools import accumulate
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PYTEST = ["-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
PYTEST += ["-m", "not opensearch and not browser"]
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
LEFT_OUT = {".git", ".venv", ".mypy_cache", ".hypothesis", "artifacts", "build"}  # at the top
SWAPS = [
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)),
    *((ast.In, ast.NotIn), (ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.FloorDiv)),
    *((ast.BitAnd, ast.BitOr), (ast.LShift, ast.RShift)),
]
OTHER: dict[type[ast.AST], Any] = dict([*SWAPS, *((b, a) for a, b in SWAPS)])
OTHER |= {ast.Div: ast.Mult, ast.Mod: ast.FloorDiv}
DELETED = (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise, ast.Delete, ast.Break, ast.Continue)
UNREACHED = {"annotation", "returns", "decorator_list"}  # fields that no test could see changed


class Mutation(NamedTuple):
    """A change of one module: the bytes from `start` to `stop` become `after`."""

    path: str
    line: int
    start: int
    stop: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {' '.join(self.before.split())} → {self.after}"


def list_mutations(module: Path) -> Iterator[Mutation]:
    """Yield all mutations of a module, in the order of its syntax tree."""
    source = (ROOT / module).read_bytes()
    starts = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
    for node in _walk(ast.parse(source)):
        for after in _replacements(node):
            start = starts[node.lineno - 1] + node.col_offset
            stop = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            before = source[start:stop].decode()
            yield Mutation(str(module), node.lineno, start, stop, before, after)


def _walk(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    if isinstance(node, ast.expr | ast.stmt):
        yield node
    for value in (value for name, value in ast.iter_fields(node) if name not in UNREACHED):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):  # no positions
                yield from _walk(child)


def _replacements(node: ast.expr | ast.stmt) -> Iterator[str]:
    """Yield sources that stand in for a node, in brackets where neighbours could bind closer."""
    match node:
        case ast.Constant(bool() as value):
            yield str(not value)
        case ast.Constant(int() | float() as value):
            yield from (f"({value + 1!r})", f"({value - 1!r})")
        case ast.UnaryOp(ast.Not(), operand):
            yield f"({ast.unparse(operand)})"
        case ast.Call(function, [first, second, *rest], keywords):
            if not isinstance(first, ast.Starred) and ast.unparse(function) not in {"max", "min"}:
                yield ast.unparse(ast.Call(function, [second, first, *rest], keywords))
        case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return None"
        case ast.expr():
            yield from _other_operator(node)
        case ast.Expr(ast.Constant()) | ast.Assign([ast.Name() | ast.Tuple()]):
            pass  # a docstring; a name whose absence any test would see
        case ast.stmt() if isinstance(node, DELETED):
            yield "pass"


def _other_operator(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Compare(left, [operator], right):
            yield f"({ast.unparse(ast.Compare(left, [OTHER[type(operator)]()], right))})"
        case ast.BoolOp(operator, values):
            yield f"({ast.unparse(ast.BoolOp(OTHER[type(operator)](), values))})"
        case ast.BinOp(left, operator, right) if type(operator) in OTHER:
            yield f"({ast.unparse(ast.BinOp(left, OTHER[type(operator)](), right))})"


def draw(seed: int, count: int) -> list[Mutation]:
    """Draw so many mutations of both packages: the same ones for a seed and a tree."""
    paths = [*ROOT.glob("service/**/*.py"), *ROOT.glob("indexer/**/*.py")]
    every = [each for path in sorted(paths) for each in list_mutations(path.relative_to(ROOT))]
    return random.Random(seed).sample(every, min(count, len(every)))


def stages(module: Path) -> list[list[str]]:
    """Return the tests to run for a module, nearest first: its own, its folder, its room, all."""
    folder = next(each for each in Path("tests", module).parents if (ROOT / each).is_dir())
    room, own = Path(*folder.parts[:2]), folder / f"test_{module.name}"
    steps = [[str(own)] if (ROOT / own).exists() else [], [str(folder)], [str(room)]]
    steps.append(["tests", f"--ignore={room}"])
    return [step if step not in steps[:number] else [] for number, step in enumerate(steps)]


def judge(root: Path, mutation: Mutation, depth: int, limit: float) -> str:
    """Return the first tests that fail with a mutation of a scratch tree, "" if it survives."""
    path = root / mutation.path
    source = path.read_bytes()
    compiled = Path(cache_from_source(str(path)))
    path.write_bytes(source[: mutation.start] + mutation.after.encode() + source[mutation.stop :])
    compiled.unlink(missing_ok=True)  # valid for a source of this size and second
    steps = [step for step in stages(Path(mutation.path))[:depth] if step]
    caught_by = next((" ".join(step) for step in steps if not _pass(root, step, limit)), "")
    path.write_bytes(source)
    compiled.unlink(missing_ok=True)
    return caught_by


def _pass(root: Path, tests: list[str], limit: float) -> bool:
    """Whether tests pass within some seconds; ends all that they started."""
    temporary = tempfile.mkdtemp(dir=root)  # a mutant may fill it
    environment = os.environ | ENVIRONMENT | {"TMPDIR": temporary}
    options: Any = {"cwd": root, "env": environment, "start_new_session": True}
    command = [sys.executable, *PYTEST, *tests]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, **options) as process:
        with suppress(subprocess.TimeoutExpired):
            process.wait(limit)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    shutil.rmtree(temporary, ignore_errors=True)
    return process.returncode in {0, 5}  # passed, or no tests


def main() -> None:
    """Judge the mutations of a seed, and print the survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--list", action="store_true", help="print the mutations, and run nothing")
    parser.add_argument("--processes", type=int, default=1, help="mutations judged at a time")
    parser.add_argument("--depth", type=int, default=4, help="stages of tests, at most 4")
    parser.add_argument("--limit", type=float, default=900, help="seconds for a stage")
    parser.add_argument("--results", type=Path, default=ROOT / "build/mutations.jsonl")
    options = parser.parse_args()
    limits = 2**28, resource.RLIM_INFINITY  # bytes of a file: some mutants write without end
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    mutations = draw(options.seed, options.count)
    if options.list:
        print(*mutations, sep="\n")
        return
    options.results.parent.mkdir(parents=True, exist_ok=True)
    options.results.touch()
    lines = options.results.read_text().splitlines()
    verdicts = {Mutation(*line[:-1]): line[-1] for line in map(json.loads, lines)}
    with tempfile.TemporaryDirectory(prefix="mutations") as scratch:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.processes):
            tree = Path(scratch, str(number))
            shutil.copytree(ROOT, tree, ignore=lambda at, _: LEFT_OUT if at == str(ROOT) else ())
            trees.put(tree)

        def run(mutation: Mutation) -> None:
            tree = trees.get()
            verdicts[mutation] = judge(tree, mutation, options.depth, options.limit)
            trees.put(tree)
            with options.results.open("a") as file:
                file.write(json.dumps([*mutation, verdicts[mutation]]) + "\n")

        with ThreadPoolExecutor(options.processes) as pool:
            list(pool.map(run, [each for each in mutations if each not in verdicts]))
    survivors = [mutation for mutation in mutations if not verdicts[mutation]]
    print(f"{len(mutations) - len(survivors)} of {len(mutations)} caught", *survivors, sep="\n")


if __name__ == "__main__":
    main()
