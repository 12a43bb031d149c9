"""Folders that hold data, models and what a model was trained on."""
