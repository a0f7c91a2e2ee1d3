"""Lightning: loaders as a [`DataModule`][feedline.lightning.DataModule].

```python
from feedline.lightning import DataModule

data = DataModule(train="/data/train.pack", val="/data/val.pack", batch_size=256, transforms=ops,
                  eval_knobs={"transforms": val_ops})
trainer.fit(model, data, ckpt_path="last")     # resumes at the exact batch
```

A `Loader` given to `trainer.fit` works too, except for two things that the module handles: ranks exist only
after the Trainer has started its processes, and a restored position in an epoch is lost if
`trainer.estimated_stepping_batches` is read before it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ._loader import Loader
from .errors import OptionError

__all__ = ["DataModule", "Lazy"]


def _base() -> Any:
    """The base class from whichever of Lightning's two packages is installed; `lightning` first."""
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            return importlib.import_module(name).LightningDataModule
        except ModuleNotFoundError as error:  # noqa: PERF203 - two names
            if (error.name or "").split(".")[0] != name.split(".", maxsplit=1)[0]:
                raise
    raise ModuleNotFoundError("feedline.lightning needs Lightning: pip install 'feedline[lightning]'")


class Lazy:
    """A loader whose `iter()` starts nothing until the first batch is requested.

    The Trainer calls `iter()` several times before it trains: to check the loader, to measure the run, and once more
    after it has restored its own state. On a loader each call is the next epoch; here only those that are used count.
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        """The loader."""

    def __iter__(self) -> Iterator[Any]:
        return self._batches()

    def _batches(self) -> Iterator[Any]:
        yield from self.loader

    def __len__(self) -> int:
        return len(self.loader)

    # Lightning uses these two to detect that a loader can resume.
    def state_dict(self) -> dict[str, Any]:
        """Like the loader's."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Like the loader's."""
        self.loader.load_state_dict(state)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "loader":
            raise AttributeError(name)
        return getattr(self.loader, name)


class DataModule(_base()):  # type: ignore[misc]
    """Loaders for training, validation, test and prediction.

    Each of `train`, `val`, `test` and `predict` is what [`open`][feedline.open] accepts, a data set, a
    [`Loader`][feedline.Loader], or a function without arguments that makes one. For data, loaders are made when the
    Trainer requests them, with its rank and world size and with `knobs`; for training with `shuffle=True` by
    default, for the others with `eval_knobs` in addition and without shuffling.

    The Trainer saves the training loader's position with each checkpoint. When restored, training continues with
    exactly the next batch, on any number of devices, whether or not the length of the run was read
    (`trainer.estimated_stepping_batches`) before.
    """

    def __init__(
        self,
        train: Any = None,
        val: Any = None,
        test: Any = None,
        predict: Any = None,
        *,
        eval_knobs: Mapping[str, Any] | None = None,
        **knobs: Any,
    ) -> None:
        super().__init__()
        given = {"train": train, "val": val, "test": test, "predict": predict}
        self._given = {stage: data for stage, data in given.items() if data is not None}
        if not self._given:
            raise OptionError("train: a data module without data; give train=, val=, test= or predict=")
        self._knobs = knobs
        self._eval_knobs = {"shuffle": False, "sampler": None, **(eval_knobs or {})}
        self._loaders: dict[str, Loader] = {}
        self._restored: Mapping[str, Any] | None = None
        # The Trainer detects from the methods whether a stage has data.
        for stage in ("train", "val", "test", "predict"):
            if stage in self._given:
                setattr(self, f"{stage}_dataloader", self._method_for(stage))

    def _method_for(self, stage: str) -> Callable[[], Lazy]:
        return lambda: Lazy(self.loader(stage))

    def loader(self, stage: str = "train") -> Loader:
        """The loader of a stage, made on first use."""
        if stage not in self._given:
            raise OptionError(f"{stage}: the data module has no such data; it has: {', '.join(self._given)}")
        if stage not in self._loaders:
            self._loaders[stage] = self._make(stage)
            if stage == "train" and self._restored is not None:
                self._loaders[stage].load_state_dict(self._restored)
        return self._loaders[stage]

    def _make(self, stage: str) -> Loader:
        rank, world = self._ranks()
        data = self._given[stage]
        made = data() if callable(data) and not isinstance(data, Loader) else data
        if isinstance(made, Loader):
            has = made.options["rank"], made.options["world_size"]
            if has != (rank, world):
                raise OptionError(
                    f"{stage}: the loader was made for rank {has[0]} of {has[1]}, but this is rank {rank} of {world}\n"
                    "hint: give the data, or a function that makes the loader, so that it is made on each rank"
                )
            return made
        knobs = {"shuffle": True, **self._knobs} if stage == "train" else {**self._knobs, **self._eval_knobs}
        if knobs.get("sampler") is not None:
            knobs.pop("shuffle", None)
        return Loader(made, **{"rank": rank, "world_size": world, **knobs})

    def _ranks(self) -> tuple[int, int]:
        trainer = self.trainer
        return (trainer.global_rank, trainer.world_size) if trainer is not None else (0, 1)

    def state_dict(self) -> dict[str, Any]:
        """The training loader's position, which the Trainer saves."""
        if "train" in self._loaders:
            return {"train": self._loaders["train"].state_dict()}
        return {"train": self._restored} if self._restored is not None else {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Resumes the training loader there, whether it is already made or not."""
        self._restored = state_dict.get("train")
        if self._restored is not None and "train" in self._loaders:
            self._loaders["train"].load_state_dict(self._restored)

    def teardown(self, stage: str) -> None:
        """Stops the threads of loaders that were made here, but not of the user's own."""
        del stage
        for name, loader in list(self._loaders.items()):
            if self._given[name] is not loader:
                if name == "train":
                    self._restored = loader.state_dict()
                loader.close()
                del self._loaders[name]
