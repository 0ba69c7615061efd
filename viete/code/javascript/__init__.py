"""JavaScript: a card's NumPy program, printed as an ES module with an array library of its own.

`module` says what is in the file and `calls` what it exports around the equations. `printer` writes
Python's statements in JavaScript and `expressions` its expressions. `array_library` has the
functions of arrays that they call, out of the `.js` files beside it.
"""
