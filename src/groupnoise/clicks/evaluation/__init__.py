"""What recommenders are worth: protocols, ranks, figures of merit, and replay."""
