"""From a table to a posterior and back: reading files, encoding columns, choosing a model, predicting, saving."""
