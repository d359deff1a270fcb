"""The files of a project: names followed through imports to where they are defined."""

import ast
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from ._module import PARSE_ERRORS, Module, dotted, parse
from ._source import UnreadableError, from_bytes

# What is known of these is in tables; to parse them would tell nothing more.
_NEVER_FOLLOWED = {"jax", "jaxlib", "numpy", "scipy", *sys.stdlib_module_names}
_BASES = re.compile(rb"^[ \t]*class\s+\w+\s*\(([^)]*)\)", re.MULTILINE)
_ISINSTANCE = re.compile(rb"is(instance|subclass)\([^()\n]*cached_property")
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
_MOST_STEPS = 12  # from a name through re-exports to its definition


@dataclass(frozen=True)
class Definition:
    """A class, function or assignment, and the file it is in."""

    module: Module
    node: ast.stmt

    @property
    def name(self) -> str:
        return f"{self.module.name}.{getattr(self.node, 'name', '')}".lstrip(".")


@dataclass
class Project:
    """Finds modules on disk when a name leads to them, and remembers them.

    Only what lies beside the checked files is looked at, never what is installed: the
    findings are the same on every machine.
    """

    _modules: dict[Path, Module | None] = field(default_factory=dict)
    _roots: dict[Path, tuple[Path, ...]] = field(default_factory=dict)
    _asking: dict[Path, bool] = field(default_factory=dict)
    _by_base: dict[Path, dict[str, list[Path]]] = field(default_factory=dict)
    _splits: dict[tuple[str, Path | None], tuple[Module, str] | None] = field(
        default_factory=dict
    )

    def module(self, tree: ast.Module, path: Path | None) -> Module:
        """A file that is checked, with the name it is imported under."""
        return Module(tree, _module_name(path) if path else "", path)

    def resolve(self, node: ast.AST | None, module: Module) -> str | Definition | None:
        """What a name or attribute stands for: a definition in this project, or the
        dotted name of something elsewhere. None if it is not a name at all."""
        name = dotted(node)
        if name is None or node is None:
            return None
        head, _, rest = name.partition(".")
        for scope in module.scopes(node):
            local = module.definitions_in(scope).get(head)
            if local is not None and not module.stands_in(local, head):
                return self._inside(Definition(module, local), rest, _MOST_STEPS)
        if head in module.imports:
            origin = module.imports[head]
            return self._follow(f"{origin}.{rest}".rstrip("."), module, _MOST_STEPS)
        for star in module.stars:
            found = self._split(f"{star}.{head}", module)
            if found is not None and _has(*found):
                return self._follow(f"{star}.{name}", module, _MOST_STEPS)
        return name

    def name_of(self, node: ast.AST | None, module: Module) -> str:
        """The dotted name of what an expression stands for; "" if it is not a name."""
        found = self.resolve(node, module)
        return found.name if isinstance(found, Definition) else found or ""

    def _inside(
        self, found: Definition, rest: str, steps: int
    ) -> str | Definition | None:
        """A definition, or what is defined in it; an alias is followed."""
        if isinstance(found.node, ast.Assign | ast.AnnAssign):
            return self._behind_alias(found, rest, steps)
        if not rest:
            return found
        head, _, rest = rest.partition(".")
        inner = found.module.definitions_in(found.node).get(head)
        if inner is None:
            return None
        return self._inside(Definition(found.module, inner), rest, steps - 1)

    def _behind_alias(
        self, found: Definition, rest: str, steps: int
    ) -> str | Definition | None:
        """`Node = flax.struct.PyTreeNode`: what the name on the right stands for."""
        assert isinstance(found.node, ast.Assign | ast.AnnAssign)
        right = dotted(found.node.value)
        if right is None or steps <= 0:
            return found if not rest else None
        head, _, tail = right.partition(".")
        rest = f"{tail}.{rest}".strip(".")
        own = found.module.definitions.get(head)
        if own is not None and own is not found.node:
            return self._inside(Definition(found.module, own), rest, steps - 1)
        origin = found.module.imports.get(head, head)
        return self._follow(f"{origin}.{rest}".rstrip("."), found.module, steps - 1)

    def _follow(self, name: str, near: Module, steps: int) -> str | Definition | None:
        """A dotted name, as far as files of the project know it."""
        found = self._split(name, near)
        if found is None or steps <= 0:
            return name
        module, attributes = found
        head, _, rest = attributes.partition(".")
        local = module.definitions.get(head)
        if local is not None and not module.stands_in(local, head):
            definition = Definition(module, local)
            return self._inside(definition, rest, steps - 1)
        if head in module.imports:
            origin = module.imports[head]
            return self._follow(f"{origin}.{rest}".rstrip("."), module, steps - 1)
        return name

    def _split(self, name: str, near: Module) -> tuple[Module, str] | None:
        """The longest part that is a module of the project, and the rest."""
        key = (name, near.path.parent if near.path else None)
        if key not in self._splits:
            self._splits[key] = self._new_split(name, near)
        return self._splits[key]

    def _new_split(self, name: str, near: Module) -> tuple[Module, str] | None:
        top = name.partition(".")[0]
        if near.path is None or (
            top in _NEVER_FOLLOWED and top != near.name.partition(".")[0]
        ):
            return None
        parts = name.split(".")
        for root in [*self._roots_of(near.path), *_named(near.path, top)]:
            for length in range(len(parts) - 1, 0, -1):
                module = self._load(root.joinpath(*parts[:length]), root)
                if module is not None:
                    return module, ".".join(parts[length:])
        return None

    def files_with_base(self, name: str, module: Module) -> list[Module]:
        """The files of the package of a file in which a class has a base of this
        name."""
        if module.path is None:
            return [module]
        root = _import_root(module.path)
        top = root / module.name.partition(".")[0]
        if top not in self._by_base:
            files = sorted(top.rglob("*.py")) if top.is_dir() else [module.path]
            self._by_base[top] = _files_by_base(files)
        names = self._by_base[top].get(name, [])
        paths = [f.parent if f.stem == "__init__" else f.with_suffix("") for f in names]
        loaded = [self._load(path, root) for path in paths]
        return [module for module in loaded if module is not None]

    def asks_for_functools(self, module: Module) -> bool:
        """Whether a file of the same package looks for properties by their class:
        `isinstance(x, functools.cached_property)`. Then none may be replaced."""
        if module.path is None:
            return False
        root = _import_root(module.path)
        top = root / module.name.partition(".")[0]
        if top not in self._asking:
            files = top.rglob("*.py") if top.is_dir() else [module.path]
            self._asking[top] = any(map(_asks, files))
        return self._asking[top]

    def _load(self, path: Path, root: Path) -> Module | None:
        if not path.name:
            return None  # `/`: an import with more dots than there are folders
        if path not in self._modules:
            self._modules[path] = None
            for file in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
                if os.path.isfile(file):
                    self._modules[path] = _read(file, root)
                    break
        return self._modules[path]

    def _roots_of(self, path: Path) -> tuple[Path, ...]:
        """Where imports may lie: beside the package, beside pyproject.toml, in src."""
        folder = path.parent
        if folder not in self._roots:
            roots = [_import_root(path)]
            for outer in (folder, *folder.parents):
                if any(os.path.isfile(outer / name) for name in _PROJECT_FILES):
                    roots += [outer, outer / "src"]
                    break
            self._roots[folder] = tuple(dict.fromkeys(roots))
        return self._roots[folder]


def _has(module: Module, name: str) -> bool:
    return name in module.definitions or name in module.imports


def _named(path: Path, top: str) -> list[Path]:
    """Where a package of this name lies around a file: not every folder of a package
    has an `__init__.py`."""
    return [folder.parent for folder in path.parents if folder.name == top]


def _import_root(path: Path) -> Path:
    folder = path.parent
    while os.path.isfile(folder / "__init__.py") and folder != folder.parent:
        folder = folder.parent
    return folder


def _module_name(path: Path) -> str:
    return _dotted_path(path, _import_root(path))


def _dotted_path(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _files_by_base(files: list[Path]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for file in files:
        names: set[str] = set()
        for bases in _BASES.findall(_bytes_of(file)):
            names.update(re.findall(r"\w+", bases.decode("utf-8", "replace")))
        for name in names:
            found.setdefault(name, []).append(file)
    return found


def _bytes_of(path: Path) -> bytes:
    """Nothing if it can't be read, or is a pipe, which would never end."""
    try:
        return path.read_bytes() if os.path.isfile(path) else b""
    except OSError:
        return b""


def _asks(path: Path) -> bool:
    return bool(_ISINSTANCE.search(_bytes_of(path)))


def _read(path: Path, root: Path) -> Module | None:
    try:
        source = from_bytes(path.name, path.read_bytes())
        tree = parse(source.text)
    except (OSError, UnreadableError, *PARSE_ERRORS):
        return None  # said where this file itself is checked
    return Module(tree, _dotted_path(path, root), path)
