"""Hugging Face: a [`Trainer`][feedline.huggingface.Trainer] that uses loaders.

```python
from feedline.huggingface import Trainer

loader = fl.Loader("/data/train.pack", batch_size=64, shuffle=True, transforms=ops, batch_map=to_model_inputs)
Trainer(model, args, train_loader=loader).train(resume_from_checkpoint=True)
```

Accelerate needs nothing: `accelerator.prepare(loader)` returns the loader unchanged (its batches are already this
rank's own), and `accelerate.skip_first_batches(loader, n)` the rest of its epoch. To save its position with
`accelerator.save_state`, register it: `accelerator.register_for_checkpointing(loader)`.

A `datasets.Dataset` can be given to [`open`][feedline.open]; files on the hub are `hf://datasets/...`.
"""

from __future__ import annotations

import importlib
from typing import Any

from ._loader import Loader
from .errors import OptionError

__all__ = ["Trainer"]


def _base() -> Any:
    try:
        return importlib.import_module("transformers").Trainer
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise ModuleNotFoundError(
            "feedline.huggingface needs transformers: pip install 'feedline[huggingface]'"
        ) from None


class _LoaderHasIt:
    """A placeholder where a data set is required and a loader has it."""

    def __len__(self) -> int:
        return 1


_LOADER_HAS_IT = _LoaderHasIt()


class Trainer(_base()):  # type: ignore[misc]
    """`transformers.Trainer` with loaders instead of data sets.

    `train_loader` and `eval_loader` are [`Loader`][feedline.Loader]s, or functions that make one: with several
    processes a loader must be made after `TrainingArguments`, which start them. Batches are passed to the model
    unchanged, so a loader must return what the model accepts, by `fields`, `as_tuple` or `batch_map`. The batch size is
    the loader's.

    When resumed from a checkpoint, the run continues with the next batch.
    """

    def __init__(self, *args: Any, train_loader: Any = None, eval_loader: Any = None, **kwargs: Any) -> None:
        for name, loader in (("train_dataset", train_loader), ("eval_dataset", eval_loader)):
            if loader is not None and kwargs.get(name) is not None:
                raise OptionError(f"{name}: there is a loader for it already")
        if eval_loader is not None:
            # The Trainer requires a data set before it evaluates.
            kwargs["eval_dataset"] = _LOADER_HAS_IT
        super().__init__(*args, **kwargs)
        self._feeds = {"train": train_loader, "eval": eval_loader}

    def _feed(self, stage: str) -> Loader | None:
        given: Any = self._feeds[stage]
        if given is not None and not isinstance(given, Loader):
            given = self._feeds[stage] = given()
        if given is None:
            return None
        own = given.options["rank"], given.options["world_size"]
        here = self.args.process_index, self.args.world_size
        if own != here:
            raise OptionError(
                f"{stage}_loader: made for rank {own[0]} of {own[1]}, but this is rank {here[0]} of {here[1]}\n"
                "hint: make the loader after TrainingArguments, or give a function that makes it"
            )
        loader: Loader = given
        return loader

    def get_train_dataloader(self) -> Any:
        """The training loader, unchanged."""
        loader = self._feed("train")
        return super().get_train_dataloader() if loader is None else loader

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """The evaluation loader, unchanged, from its first epoch: every evaluation gets the same batches."""
        loader = self._feed("eval") if eval_dataset is None or eval_dataset is _LOADER_HAS_IT else None
        if loader is None:
            return super().get_eval_dataloader(eval_dataset)
        loader.set_epoch(0)
        return loader
