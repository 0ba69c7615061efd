"""What people read: documents, diagrams, lessons and pages, made of cards and of their runs."""
