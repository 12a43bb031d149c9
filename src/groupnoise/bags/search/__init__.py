"""How a plain fit on bags decides: members, their trials on held-out bags, their average."""
