"""What the tests of the exercises share."""

import pytest
from book_masters import book_master


@pytest.fixture
def master(request):
    """The master of the book whose id is the parameter."""
    return book_master(request.param)
