"""Print the structure of the source packages, and fail on what the architecture and the style rules forbid.

    python scripts/check_structure.py            # a row per package, then violations; exit code 1 if any
    python scripts/check_structure.py --any      # also every signature that holds `Any`

Counted per package: modules at its top (without `__init__.py`), source lines, circles among its children (packages and
modules), and upward imports (against the `layers` contracts of import-linter in `pyproject.toml`). Checked in all
source files: docstrings that begin with a question word, functions named by a participle, old names of the glossary,
words that the style rules out, and docstrings that call a function that no longer exists.
"""

import ast
import builtins
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("mas", "eval", "optimize")
MOST_MODULES = 12
MOST_ANY = 148
QUESTION_WORDS = re.compile(r"(What|How|Which|Where|Whether|Who|When)\b")
OLD_NAMES = re.compile(
    r"(?<!self-)\b(at_work|current_question|QuestionLimits|over_at|until_over|belongings|told|concluded|as_job|heed|heard_by"
    r"|rare_collection|lasting_output|question_mark|giveaways|untuned|leaving_out|KeptFile|at_hand|read_apart"
    r"|contained|remembering|outside_data|CallTerms|noted_if_cut_off|HeldError|Purse|Veiled|keep_room|held_by|undisturbed"
    r"|put_in_place|EndedError|HaltedError)\b"
)
PARTICIPLE = re.compile(
    r"(?!(?:feed|need|embed|exceed|seed|proceed|speed)(?:_|$)|named_(?:predictors|parameters|sub_modules)$)([a-z]*ed|told|kept|said|made|shown|held|given|known|sent|found|gone|spent|left"
    r"|written|drawn|chosen|taken|begun|spelt|meant|put_before|seen)(?=_|$)"
)
RULED_OUT = re.compile(
    r"\b(beside|mend|mends|mended|asked afresh|asked anew|scored anew|(?<!one )of these|came to be|an honest no"
    r"|at work)\b",
    re.I,
)

# A call in a docstring with the dotted path before it, a name that the docstring defines itself, and the calls that are
# functions of mathematics, of other libraries or of the operating system.
CALL = re.compile(r"(?<![\\\w-])((?:\w+|\W)\.)?(?:\w+\.)*([A-Za-z_]\w*)\(")
DEFINED = re.compile(r"\b(?:class|def|as) (\w+)|^\s*(\w+) = ", re.M)
LIBRARIES = frozenset(("asyncio", "dspy", "httpx", "json", "mlflow", "platform"))
NOT_PROJECT_CALLS = frozenset(("p", "q", "logit", "sqrt", "comb", "seccomp", "post"))

# Phrases of texts that a model reads. Other words would give other replies, so that tuning runs and sample data change.
MODEL_TEXTS = (
    "beside the request that names it",
    "of these days",
    "As far as can be told",
    "as far as can be told",
    "cannot be told",
    "it was at work when a limit",
    "stood beside the number",
)


class Module:
    """One source file, parsed."""

    def __init__(self, path: Path) -> None:
        self.path = path.relative_to(ROOT)
        self.name = ".".join(self.path.with_suffix("").parts).removesuffix(".__init__")
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    def imports(self, known: Mapping[str, "Module"]) -> Iterator[str]:
        """Yield the names of the project's modules that this one imports, inside functions too."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name in known)
            elif isinstance(node, ast.ImportFrom) and node.module:
                submodules = [f"{node.module}.{alias.name}" for alias in node.names]
                yield from (name if name in known else node.module for name in submodules if node.module in known)


def read_modules() -> dict[str, Module]:
    """Return all modules of the source packages by dotted name, without the sample's attachments."""
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    found = [Module(path) for path in paths if "sample" not in path.relative_to(ROOT).parts]
    return {module.name: module for module in found}


def child_of(package: str, name: str) -> str | None:
    """Return the direct child of a package that a module is or is in; None if it is elsewhere."""
    if not name.startswith(package + "."):
        return None
    return name.removeprefix(package + ".").split(".")[0]


def find_circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components with more than one member, by reachability: the graphs are small."""
    reachable: dict[str, set[str]] = {}
    for start in edges:
        seen: set[str] = set()
        queue = list(edges[start])
        while queue:
            if (node := queue.pop()) not in seen:
                seen.add(node)
                queue.extend(edges.get(node, ()))
        reachable[start] = seen
    groups = {
        tuple(sorted(other for other in reachable if other in reachable[node] and node in reachable[other]))
        for node in reachable
        if node in reachable[node]
    }
    return [list(group) for group in sorted(groups) if len(group) > 1]


def read_layers() -> dict[str, list[str]]:
    """Return, per container package, its children from top to bottom; children of one layer share a level."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {
        container: contract["layers"]
        for contract in pyproject["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
        for container in contract.get("containers", ())
    }


def check_imports(modules: Mapping[str, Module]) -> list[str]:
    """Print a row per package; return circles, upward imports and packages that are too wide, as sentences."""
    problems: list[str] = []
    layers = read_layers()
    packages = sorted(name for name, module in modules.items() if module.path.name == "__init__.py")
    print(f"{'package':34} {'modules':>7} {'lines':>6} {'circles':>7} {'upward':>6}")
    for package in packages:
        top = [name for name in modules if name.rpartition(".")[0] == package and name not in packages]
        lines = sum(module.lines for name, module in modules.items() if f"{name}.".startswith(f"{package}."))
        edges: dict[str, set[str]] = defaultdict(set)
        examples: dict[tuple[str, str], str] = {}
        for name, module in modules.items():
            source = child_of(package, name)
            for imported in module.imports(modules) if source else ():
                target = child_of(package, imported)
                if source and target and source != target:
                    edges[source].add(target)
                    examples.setdefault((source, target), f"{name} imports {imported}")
        circles = find_circles(edges)
        level = {child.strip(): i for i, line in enumerate(layers.get(package, ())) for child in line.split("|")}
        upward = [
            example
            for (source, target), example in sorted(examples.items())
            if source in level and target in level and level[target] < level[source]
        ]
        print(f"{package:34} {len(top):7} {lines:6} {len(circles):7} {len(upward):6}")
        problems += [f"circle in {package}: {', '.join(circle)}" for circle in circles]
        problems += [f"upward import in {package}: {example}" for example in upward]
        if len(top) > MOST_MODULES:
            problems.append(f"{package} has {len(top)} modules at its top, more than {MOST_MODULES}")
    return problems


def is_participle(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a public function that is no property is named like `told` or `listed_runs`."""
    decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in function.decorator_list}
    return bool(PARTICIPLE.match(function.name)) and not decorators & {"property", "cached_property", "setter"}


def check_style(modules: Mapping[str, Module]) -> list[str]:
    """Return question-word docstrings, old names and ruled-out words, one line each."""
    problems: list[str] = []
    for module in modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                line = getattr(node, "lineno", 1)
                first = (ast.get_docstring(node) or "").partition("\n")[0]
                if QUESTION_WORDS.match(first):
                    problems.append(f"{module.path}:{line}: docstring begins with a question word: {first[:50]}")
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_participle(node):
                    problems.append(f"{module.path}:{line}: public function is named by a participle: {node.name}")
        for number, line in enumerate(module.text.splitlines(), start=1):
            for text in MODEL_TEXTS:
                line = line.replace(text, "")
            for rule, pattern in (("old name", OLD_NAMES), ("ruled out", RULED_OUT)):
                if match := pattern.search(line):
                    problems.append(f"{module.path}:{number}: {rule}: {match.group()}")
    return problems


def find_callables(modules: Mapping[str, Module]) -> tuple[set[str], set[str]]:
    """Return the names that a docstring may call without a dot, and those that it may call after one.

    Without a dot: functions, methods and classes of the project, builtins and everything imported except the project's
    own modules. After a dot: also every attribute that the code uses, which includes the methods of other libraries.
    """
    names, attributes = set(dir(builtins)), set[str]()
    for module in modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                origin = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                names.update(each.asname or each.name for each in node.names if origin + each.name not in modules)
            elif isinstance(node, ast.Attribute):
                attributes.add(node.attr)
    return names, names | attributes


def check_docstring_calls(modules: Mapping[str, Module]) -> list[str]:
    """Return the calls in docstrings whose function exists nowhere in the source packages, one line each."""
    problems: list[str] = []
    names, after_dot = find_callables(modules)
    for module in modules.values():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            docstring = ast.get_docstring(node) or ""
            allowed = NOT_PROJECT_CALLS.union(*DEFINED.findall(docstring))
            for number, text in enumerate(docstring.splitlines(), start=node.body[0].lineno if node.body else 1):
                for path, name in CALL.findall(text):
                    is_library = path.rstrip(".") in LIBRARIES
                    if not is_library and name not in (after_dot if path else names) and name not in allowed:
                        problems.append(f"{module.path}:{number}: docstring calls what does not exist: {name}(")
    return problems


def find_any_aliases(modules: Mapping[str, Module]) -> set[tuple[str, str]]:
    """Return (module, name) of the aliases that hold `Any`, such as `Json = dict[str, Any]`."""
    return {
        (name, target.id)
        for name, module in modules.items()
        for node in module.tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp | ast.Name)
        for target in node.targets
        if isinstance(target, ast.Name) and mentions(node.value, {"Any"})
    }


def mentions(annotation: ast.AST, names: Collection[str]) -> bool:
    """Return whether an annotation holds one of the names."""
    return any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(annotation))


def signatures_with_any(modules: Mapping[str, Module]) -> list[str]:
    """Return every annotation of a parameter or result that holds `Any` or an alias of it, as `path:line: name`."""
    found: list[str] = []
    aliases = find_any_aliases(modules)
    for name, module in modules.items():
        own = {"Any"} | {alias for owner, alias in aliases if owner == name}
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom):
                own |= {each.asname or each.name for each in node.names if (node.module, each.name) in aliases}
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            given = node.args
            arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            annotated = [(each.arg, each.annotation) for each in arguments if each] + [("return", node.returns)]
            found += [
                f"{module.path}:{node.lineno}: {node.name}({argument})"
                for argument, annotation in annotated
                if annotation and mentions(annotation, own)
            ]
    return found


def main(arguments: list[str]) -> int:
    """Print the table and all violations; return 1 if there are any."""
    modules = read_modules()
    problems = check_imports(modules) + check_style(modules) + check_docstring_calls(modules)
    with_any = signatures_with_any(modules)
    small = [module for module in modules.values() if module.lines < 60 and module.path.name != "__init__.py"]
    lines = sum(module.lines for module in modules.values())
    print(f"\n{len(modules)} files, {lines} lines, {len(small)} files under 60 lines,")
    print(f"{len(with_any)} parameters and results with Any")
    if len(with_any) > MOST_ANY:
        problems.append(f"{len(with_any)} signatures hold Any, more than {MOST_ANY}")
    if "--any" in arguments:
        print("\n".join(with_any))
    print("\n".join(problems) if problems else "no violations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
