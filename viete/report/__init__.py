"""Reports: documents, diagrams, lessons and pages, made from cards and their runs."""
