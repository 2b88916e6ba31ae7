"""Position schemes, from the integer index to rotations, with one interface (``base``)."""
