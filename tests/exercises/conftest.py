"""What the tests of the exercises share."""

import pytest
from book_masters import book_master


@pytest.fixture(scope="module")  # all tests of a master in a file then follow each other, and its code is compiled once
def master(request):
    """The master of the book whose id is the parameter."""
    return book_master(request.param)
