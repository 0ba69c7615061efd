"""The explore page: a card and a run of it as data (JSON), and as one self-contained HTML file.

`data.py` makes the page's data from what other folders provide: documents, runs, gradients,
diagrams, lessons. `static/` has the program that shows it in a browser, built from `page/` at the
top of the repository. This folder knows which meanings a run can have, and no particular model.
"""
