"""The LIBRARY of a source of strategies."""

import pytest

from overlayccl_core import catalog
from overlayccl_core.program.kinds import Rejected
from overlayccl_core.program.library import Role, functions_of, read_library

SOURCE = """
from overlayccl_core.program.language import Library, all_reduce

def one(io, p):
    io.write("y", _sum(io.read("x")))

def two(io, p):
    one(io, p)

def three(io, p):
    one(io, p)

def _sum(x):
    return all_reduce(x)

"""
LIBRARY = 'LIBRARY = Library(developer="one", hand_bundled="two", others=("three",))\n'


def test_roles_and_functions_are_read_from_the_source() -> None:
    library = read_library(SOURCE + LIBRARY)
    assert library.strategies == (("one", Role.DEVELOPER), ("two", Role.HAND_BUNDLED), ("three", Role.OTHER))
    assert library.functions == ("one", "two", "three")
    assert functions_of(SOURCE) == ("one", "two", "three")


def test_a_library_may_name_its_single_graph() -> None:
    library = read_library(
        SOURCE + 'LIBRARY = Library(developer="one", single_graph="three", hand_bundled="two", others=())\n'
    )
    assert library.strategies == (
        ("one", Role.DEVELOPER),
        ("three", Role.SINGLE_GRAPH),
        ("two", Role.HAND_BUNDLED),
    )


def test_a_library_may_name_several_developers_by_preference_and_nothing_that_is_bundled() -> None:
    library = read_library(SOURCE + 'LIBRARY = Library(developer=("three", "one"), others=("two",))\n')
    assert library.developers == ("three", "one")
    assert library.strategies == (("three", Role.DEVELOPER), ("one", Role.DEVELOPER), ("two", Role.OTHER))
    assert read_library(SOURCE + LIBRARY).developers == ("one",)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ("", "last statement .*LIBRARY"),
        ('LIBRARY = Library(hand_bundled="two", others=("one",))', "takes .*got hand_bundled"),
        ('LIBRARY = Library("one", hand_bundled="two", others=())', "takes .*got hand_bundled"),
        ('LIBRARY = Library(developer=(), others=("one",))', "developer must .*a tuple"),
        ('LIBRARY = Library(developer=("one", 3), others=())', "developer must .*a tuple"),
        ('LIBRARY = Library(developer=("one", "one"), others=())', "'one' twice"),
        ('LIBRARY = Library(developer=("one", "four"), others=())', "names 'four'"),
        ('LIBRARY = Library(developer="one", hand_bundled="two", others=("four",))', "names 'four'"),
        ('LIBRARY = Library(developer="one", hand_bundled="two", others=("one",))', "'one' twice"),
        ('LIBRARY = Library(developer=one, hand_bundled="two", others=())', "must be written out"),
        ('LIBRARY = Library(developer="one", hand_bundled="two", others="three")', "others must .*a tuple"),
        ('LIBRARY = Library(developer="one", hand_bundled=3, others=())', "must each be a name"),
        (
            'LIBRARY = Library(developer="one", hand_bundled="two", single_graph=3, others=())',
            "must each be a name",
        ),
        (
            'LIBRARY = Library(developer="one", hand_bundled="two", single_graph="two", others=())',
            "'two' twice",
        ),
        ('LIBRARY = Library(developer="one", hand_bundled="two", others=())\nN = 3', "last statement"),
    ],
)
def test_a_wrong_library_is_refused_with_its_line(last: str, message: str) -> None:
    with pytest.raises(Rejected, match=message) as caught:
        read_library(SOURCE + last)
    assert caught.value.line is not None
    assert caught.value.line >= 13


@pytest.mark.parametrize("name", ["tp_mlp", "uniform_a2a", "grad_ar"])
def test_every_public_function_of_the_shipped_libraries_is_listed(name: str) -> None:
    library = read_library(catalog.library_source(name))
    assert {way for way, _ in library.strategies} == set(library.functions)
    developers = {"uniform_a2a": ("native", "gather_slice"), "grad_ar": ("ddp_1_then_25_mib",)}
    assert library.developers == developers.get(name, ("developer",))


def test_a_way_made_of_others_is_derived_and_one_of_a_file_is_not() -> None:
    library = read_library(catalog.library_source("tp_mlp"))
    assert {"coalesced", "native_twice"} <= {*library.ways}
    assert library.derived & {"coalesced", "native_twice"} == {"native_twice"}
