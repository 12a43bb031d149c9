"""Rivals of the paper and after it, under the same contract as ours."""
