"""From files to data sets and back: tables, columns, data folders, model folders, named sets."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.io.datasets import (
        BagDataset as BagDataset,
        ClickDataset as ClickDataset,
        PartialLabelDataset as PartialLabelDataset,
        single_label as single_label,
    )
    from groupnoise.io.description import describe as describe
    from groupnoise.io.folders.data_folder import (
        open_groups as open_groups,
        write_groups as write_groups,
    )
    from groupnoise.io.named import load_dataset as load_dataset
    from groupnoise.io.registry import (
        fetch_dataset as fetch_dataset,
        list_datasets as list_datasets,
    )

__getattr__, __dir__, __all__ = lazy_names(__name__)
