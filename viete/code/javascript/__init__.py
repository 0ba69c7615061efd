"""JavaScript: a card's NumPy program, printed as an ES module with its own array library.

`module` puts the file together and `calls` writes what it exports around the equations. `printer`
writes Python's statements in JavaScript and `expressions` its expressions. `array_library` collects
the array functions that they call from the `.js` files beside it.
"""
