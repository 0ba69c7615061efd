"""Lessons: a card's run on one input, a step for every equation, with the numbers put in.

`making` turns an exact run into a lesson, `document` that into a document. What is said comes from
the equations, from the card's own words and from the values; nothing here knows a function or a
kind of model by name.
"""
