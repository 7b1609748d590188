"""What the tests of this folder have at hand; see world.py."""

import pytest

from world import World


@pytest.fixture
def world(fleet, scripted):
    return World(fleet, scripted)
