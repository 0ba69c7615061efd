"""Lessons: a card's run on one input, a step for every equation, with the numbers put in.

`making` turns an exact run into a `data.Lesson`; `writing` and `page` write it as text, Markdown,
LaTeX and as one page of HTML. What is said comes from the equations, from the card's own words and
from the values; nothing here knows a function or a kind of model by name.
"""
