"""Windows: groups of a few clicks tied to the next one, cut, stored and trained on."""
