"""All the parts of a run, built from its recipe, and what one optimiser step does with them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from advshift.data import Batch, DataSet, hashed
from advshift.errors import InputError
from advshift.losses import DeferredWeights
from advshift.models import build_model
from advshift.training.averaging import WeightAverage
from advshift.training.checkpoints import Checkpoints, read_checkpoint
from advshift.training.devices import choose_formats, choose_threads
from advshift.training.feed import Feed
from advshift.training.graphs import Replayed
from advshift.training.objective import build_objective, frozen_statistics
from advshift.training.optimisers import build_optimizer
from advshift.training.recipe import Recipe
from advshift.training.schedules import build_schedule
from advshift.training.tally import Tally
from advshift.training.workers import Workers

__all__ = ["Session"]


class Session:
    """The model, the objective, the optimiser and their state: what a checkpoint holds, and what a step moves.

    Parameters
    ----------
    recipe
        The run.
    data
        Its splits.
    workers
        The processes that train together.
    """

    def __init__(self, recipe: Recipe, data: DataSet, workers: Workers) -> None:
        self.recipe, self.data, self.workers = recipe, data, workers
        options = recipe.training
        model = recipe.model
        self.classes = len(data.class_names)
        self.model = build_model(
            model.name, self.classes, data.shape, seed=hashed(recipe.seed, "model"), **model.options
        )
        if options.initial_weights is not None:
            _load_weights(self.model, options.initial_weights)
        self.formats = choose_formats(options, workers.device, self.model)
        self.threads = choose_threads(options.threads, workers.device, self.model)
        self.model.to(workers.device)
        self.model.to(memory_format=self.formats.memory)  # type: ignore[call-overload]
        self.feed = Feed(recipe, data, workers, self.formats)
        self.steps_per_epoch = self.feed.steps_per_epoch
        self.total_steps = min(options.epochs * self.steps_per_epoch, options.max_steps or options.epochs * 10**12)
        self.objective = build_objective(recipe.objective, self.feed.train_counts, self.total_steps).to(workers.device)
        self.optimizer = build_optimizer(
            self.model, recipe.optimizer.name, lr=recipe.optimizer.lr, **recipe.optimizer.options
        )
        self.factor = build_schedule(
            recipe.schedule.name,
            self.total_steps,
            self.steps_per_epoch,
            lr=recipe.optimizer.lr,
            **recipe.schedule.options,
        )
        self.average = WeightAverage(self.model, options.average) if options.average else None
        self.network = workers.wrap(self._quickened())
        self._attach()
        self.step, self.tally = 0, Tally(self.classes, workers.device)

    def _quickened(self) -> nn.Module:
        """The network as training runs it: compiled, or replayed on a CUDA device, where the recipe asks for that."""
        options, device = self.recipe.training, self.workers.device
        if not options.cuda_graph or device.type != "cuda" or self.workers.world > 1:
            return _compiled(self.model, options.compile)
        return Replayed(self.model, (options.batch_size // options.accumulate, *self.data.shape), self.formats)

    def _attach(self) -> None:
        if self.recipe.objective.adversary_data == "batch":
            self.objective.attach(self.optimizer)
        elif isinstance(self.objective.loss, DeferredWeights):
            self.objective.loss.attach(self.optimizer)

    @property
    def learning_rate(self) -> float:
        """That of the next step."""
        return self.recipe.optimizer.lr * self.factor(min(self.step, self.total_steps))

    def advance(self, batch: Batch, size: int) -> None:
        """Take one optimiser step.

        Parameters
        ----------
        batch
            This process's part of the examples of the step.
        size
            How many examples the step has over all processes.
        """
        self._seed(hashed(self.recipe.seed, "step", self.step, self.workers.rank))
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate
        parts = self._parts(batch)
        for number, (inputs, labels) in enumerate(parts, start=1):
            with self._gradients_wait(number < len(parts)):
                with self.formats.autocast():
                    logits = self.network(inputs)
                loss = self.objective(logits.float(), labels)
                (loss * (len(labels) * self.workers.world / size)).backward()
            self.tally.add(logits, labels)
        if self.recipe.training.clip_norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.training.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.average is not None:
            self.average.update(self.model)
        self._inform(batch)
        self.step += 1

    def _seed(self, seed: int) -> None:
        """Seed dropout and its kin; torch's own function costs 2 ms a call where there is no accelerator."""
        seeder = torch.default_generator if self.workers.device.type == "cpu" else torch
        seeder.manual_seed(seed)

    def _parts(self, batch: Batch) -> list[tuple[Tensor, Tensor]]:
        """Split a batch in the micro-batches over which gradients are accumulated."""
        pieces = min(self.recipe.training.accumulate, len(batch.labels))
        return list(zip(batch.inputs.tensor_split(pieces), batch.labels.tensor_split(pieces), strict=True))

    def _gradients_wait(self, wait: bool) -> contextlib.AbstractContextManager[Any]:
        """Let the processes exchange gradients once a step, with the last micro-batch."""
        if wait and isinstance(self.network, nn.parallel.DistributedDataParallel):
            return self.network.no_sync()
        return contextlib.nullcontext()

    def _inform(self, batch: Batch) -> None:
        """Show the adversary the losses after the step: of the same batch again, or of one held out."""
        kind = self.recipe.objective.adversary_data
        if kind == "batch":
            return
        if kind == "held-out":
            batch = self.feed.held_out(self.step)
            self.model.eval()
        with frozen_statistics(self.model), self.formats.autocast():
            logits = self.model(batch.inputs)
        self.model.train()
        self.objective.refresh(logits.float(), batch.labels)
        self.objective.step()

    @contextlib.contextmanager
    def ready_to_measure(self) -> Iterator[nn.Module]:
        """The model in eval mode: with the averaged weights where there are, and the same buffers everywhere."""
        self.workers.agree_on_buffers(self.model)
        swapped = contextlib.nullcontext() if self.average is None else self.average.swap(self.model)
        self.model.eval()
        try:
            with swapped, torch.no_grad():
                yield self.model
        finally:
            self.model.train()

    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on."""
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "objective": self.objective.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "tally": self.tally.table,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.step = int(state["step"])
        if not 0 <= self.step <= self.total_steps:
            raise ValueError(f"step {self.step:,} of {self.total_steps:,}")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.objective.load_state_dict(state["objective"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        if self.workers.leads:  # the saved sums are those of all processes
            self.tally.table.copy_(state["tally"])


def _compiled(model: nn.Module, how: bool | str) -> nn.Module:
    if not how:
        return model
    compiled: Any = torch.compile(model) if how is True else torch.compile(model, mode=str(how))
    return compiled  # type: ignore[no-any-return]


def _load_weights(model: nn.Module, source: str) -> None:
    """Begin from the weights of another run, or of a checkpoint."""
    from pathlib import Path

    path = Path(source)
    if path.is_dir():
        found = Checkpoints(path / "checkpoints").load()
        if found is None:
            raise InputError(f"training.initial_weights: the run {source!r} holds no checkpoint")
        state = found.state
    else:
        state = read_checkpoint(path)
    try:
        model.load_state_dict(state["session"]["model"])
    except (RuntimeError, KeyError, TypeError) as error:
        fault = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise InputError(f"training.initial_weights: {source!r} is of another model: {fault}") from None
