"""JavaScript: a card's NumPy program, printed as an ES module with an array library of its own.

`module` says what is in the file, `printer` writes Python's statements and expressions in
JavaScript, and `array_library` the functions of arrays that they call, out of `arrays.js` and
`products.js`.
"""
