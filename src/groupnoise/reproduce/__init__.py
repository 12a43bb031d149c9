"""Every table and figure of the paper: recipes, trials, reports and the demonstration."""
