"""The lines of a strategy: its own and those of the helpers that it reaches, each once."""

from overlayccl_core.program.code_lines import lines_of

WAYS = {
    "outer": '''
from overlayccl_core.program.language import all_reduce
from overlayccl_core.strategies.ways import inner


def summed(x, p):
    """A line more where two are written."""
    y = inner.doubled(
        x,
        p,
    )
    return all_reduce(y)
''',
    "inner": """
from overlayccl_core.program.language import add


def doubled(x, p):
    # a comment
    return add(x, x)


def unused(x, p):
    return x
""",
}
SOURCE = '''
from overlayccl_core.program.language import Library, all_reduce
from overlayccl_core.strategies.ways import outer


def plain(io, p):
    """One call."""
    _write(io, all_reduce(io.read("x")))


def _by_a_way(io, p, way):
    _write(io, way(io.read("x"), p))


def _write(io, y):
    io.write("y", y)
    io.write("z", y)


LIBRARY = Library(developer="plain", others=(), ways=((outer, _by_a_way),))
'''


def test_helpers_count_once_in_whichever_file_they_are() -> None:
    lines = lines_of(SOURCE, lambda name: (WAYS[name],))
    assert lines == {"plain": 2 + 3, "summed": 2 + 2 + 3 + 3 + 2}
