"""The run-time half of printed modules, as text: the definitions in real Python files that a module uses.

The package never imports such a file, of runtime/ or of a backend. It reads the file and prints it without imports
from other such files. They share their names: a library's file of calls defines the functions of runtime/calls.pyi.
"""

import ast
import builtins
import symtable
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from overlayccl_core import loader

FUTURE = "from __future__ import annotations"
_BUILTINS = frozenset(vars(builtins))


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A statement at a file's top that defines names: its text, and the names that it uses but does not define."""

    names: tuple[str, ...]
    text: str
    uses: frozenset[str]
    is_assignment: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFile:
    """A file's definitions in its order, and its imports from outside: name -> (module, name there).

    The name there is empty for `import module` and `import module as name`.
    """

    definitions: tuple[Definition, ...]
    imports: Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeText:
    """Text of a printed module: its imports, sorted, and its definitions.

    needs: imported packages outside the standard library.
    """

    imports: str
    definitions: str
    needs: tuple[str, ...]


def runtime_text(
    names: Iterable[str], modules: Sequence[str], *, also: Iterable[str] = (), given: Collection[str] = ()
) -> RuntimeText:
    """Return the definitions of `names` and of all they use, in the order of the files, each once.

    Args:
        modules: Dotted names of run-time files.
        also: Modules imported for the printed module's own statements.
        given: Names assigned by the printed module itself.

    Raises:
        ValueError: A name is nowhere or in two files, or two files import it differently.
    """
    files = [_parsed(loader.module_source(module), module) for module in modules]
    home: dict[str, tuple[RuntimeFile, Definition]] = {}
    for file in files:
        for definition in file.definitions:
            if twice := [name for name in definition.names if name in home or name in given]:
                raise ValueError(f"{twice[0]} stands twice in {', '.join(modules)}: printed, it would be one")
            home |= dict.fromkeys(definition.names, (file, definition))
    imports = {module: (module, "") for module in also}
    wanted: set[Definition] = set()
    todo = sorted(set(names))
    while todo:
        name = todo.pop()
        if name not in home:
            raise ValueError(f"{name} is in none of {', '.join(modules)}: define it in one of them")
        file, definition = home[name]
        if definition in wanted:
            continue
        wanted.add(definition)
        for used in sorted(definition.uses):
            if used in home:
                todo.append(used)
            elif used in file.imports:
                if imports.setdefault(used, file.imports[used]) != file.imports[used]:
                    raise ValueError(f"{used} is imported from two places in {', '.join(modules)}")
            elif used not in given and used not in _BUILTINS:
                raise ValueError(
                    f"{definition.names[0]} uses {used}, which {', '.join(modules)} do not define"
                )
    printed = [d for file in files for d in file.definitions if d in wanted]
    packages = {module.split(".")[0] for module, _ in imports.values() if _is_foreign(module)}
    return RuntimeText(
        imports=_imports_text(imports), definitions=_spaced(printed), needs=tuple(sorted(packages))
    )


def names_defined(module: str) -> tuple[str, ...]:
    """Return the names a run-time file defines, in its order."""
    return tuple(name for d in _parsed(loader.module_source(module), module).definitions for name in d.names)


def _spaced(definitions: Iterable[Definition]) -> str:
    """Put two empty lines around functions and classes, none between assignments."""
    text, before = "", False
    for definition in definitions:
        gap = "\n" if before and definition.is_assignment else "\n\n\n"
        text += (gap if text else "") + definition.text
        before = definition.is_assignment
    return text


def _imports_text(imports: Mapping[str, tuple[str, str]]) -> str:
    """Sort imports: the standard library's, then others'; `import x` before `from x import y`."""
    plain: set[tuple[str, str]] = set()
    members: dict[str, set[str]] = {}
    for name, (module, there) in imports.items():
        if there:
            members.setdefault(module, set()).add(there)
        else:
            plain.add((module, f"import {module}" + (f" as {name}" if name != module else "")))
    lines = [(_is_foreign(module), text.startswith("from"), module, text) for module, text in plain]
    lines += [
        (_is_foreign(module), True, module, f"from {module} import {', '.join(sorted(of))}")
        for module, of in members.items()
    ]
    sections = [
        [text for *_, text in sorted(lines) if _is_foreign(text.split()[1]) is f] for f in (False, True)
    ]
    return "\n\n".join([FUTURE, *("\n".join(section) for section in sections if section)])


def _is_foreign(module: str) -> bool:
    return module.split(".")[0] not in sys.stdlib_module_names


@cache
def _parsed(text: str, module: str) -> RuntimeFile:
    """Parse a file. The cache's key is the text, so it is never stale."""
    definitions: list[Definition] = []
    imports: dict[str, tuple[str, str]] = {}
    lines = text.splitlines()
    above = 0
    for node in ast.parse(text).body:
        start = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        while start - 2 >= above and lines[start - 2].startswith("#"):
            start -= 1  # comments right above
        above = node.end_lineno or node.lineno
        match node:
            case ast.Expr(value=ast.Constant(value=str())) | ast.ImportFrom(module="__future__"):
                continue
            case ast.ImportFrom(module=str(source)):
                if renamed := [alias.name for alias in node.names if alias.asname]:
                    raise ValueError(f"{module} renames {renamed[0]}: printed files share their names")
                if source.split(".")[0] != loader.PACKAGE:
                    imports |= {alias.name: (source, alias.name) for alias in node.names}
            case ast.Import():
                imports |= {alias.asname or alias.name: (alias.name, "") for alias in node.names}
            case ast.FunctionDef() | ast.ClassDef() | ast.Assign() | ast.AnnAssign():
                source = "\n".join(lines[start - 1 : above])
                names = _names_given(node)
                uses = frozenset(_globals_in(symtable.symtable(source, module, "exec"))) - set(names)
                definitions.append(
                    Definition(
                        names=names,
                        text=source,
                        uses=uses,
                        is_assignment=isinstance(node, ast.Assign | ast.AnnAssign),
                    )
                )
            case _:
                raise ValueError(
                    f"{module}, line {node.lineno}: a file that is printed holds imports, functions, classes and"
                    " assignments only"
                )
    return RuntimeFile(definitions=tuple(definitions), imports=imports)


def _names_given(node: ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign) -> tuple[str, ...]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return (node.name,)
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return tuple(x.id for target in targets for x in ast.walk(target) if isinstance(x, ast.Name))


def _globals_in(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names a statement takes from its module, at any depth."""
    at_top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if (at_top and symbol.is_referenced()) or (not at_top and symbol.is_global()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _globals_in(inner)
