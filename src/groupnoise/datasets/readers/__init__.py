"""From the files people have to groups: tables, arrays, text and data frames."""

from groupnoise.datasets.readers._bags import read_bags
from groupnoise.datasets.readers._candidates import read_candidates
from groupnoise.datasets.readers._clicks import read_clicks
from groupnoise.datasets.readers._tables import Table, read_table

__all__ = ["Table", "read_bags", "read_candidates", "read_clicks", "read_table"]
