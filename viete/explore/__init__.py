"""The page: a card and a run of it as data (JSON) and as one self-contained HTML file.

`data.py` makes the page's data out of what the rooms below know: documents, runs, gradients,
diagrams, lessons. `static/` has the program that shows it in a browser, built from `page/` at the
repository's top. The room knows which meanings a run can have and nothing of any model.
"""
