"""Label-distribution-aware margins on cosine logits."""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from advshift.errors import InputError, as_number
from advshift.losses.base import IGNORED, Loss, check_counts, check_inputs, expected_loss, per_class
from advshift.types import ArrayLike

__all__ = ["LDAM", "NormalisedLinear", "ldam", "ldam_margins", "margin_log_probabilities"]

ROUNDING = 0.02  # by how much a cosine of half precision may pass one


def ldam_margins(class_counts: ArrayLike, largest: float = 0.5) -> Float[Tensor, " classes"]:
    """Margins `m_y ∝ n_y^{-1/4}`, scaled so that the rarest class has the `largest`.

    >>> ldam_margins([10_000, 16, 1])
    tensor([0.0500, 0.2500, 0.5000])
    """
    if not as_number(largest) > 0.0:
        raise InputError(f"the largest margin must be positive; got {largest!r}")
    margins = check_counts(class_counts, "a margin by class size") ** -0.25
    return torch.tensor(margins * (largest / margins.max()), dtype=torch.get_default_dtype())


def margin_log_probabilities(
    scores: Float[Tensor, "batch classes *rest"], margins: Float[Tensor, "#classes *#rest"]
) -> Float[Tensor, "batch classes *rest"]:
    """`log softmax(z - m_y·onehot(y))_y` for every class `y` at once.

    With `rest_y = log Σ_{c≠y} exp(z_c)` it is `-log(1 + exp(rest_y - z_y + m_y))`. For all but the largest score,
    `rest_y` follows from the sum over all classes without cancellation; for the largest it is summed anew.
    """
    total = scores.logsumexp(dim=1, keepdim=True)
    top = torch.zeros_like(scores, dtype=torch.bool).scatter(1, scores.argmax(dim=1, keepdim=True), True)
    others = scores.masked_fill(top, -torch.inf).logsumexp(dim=1, keepdim=True)
    share = scores.softmax(dim=1).masked_fill(top, 0.0)
    rest = torch.where(top, others, total + torch.log1p(-share))
    excess = rest - scores + margins
    return -torch.logaddexp(torch.zeros_like(excess), excess)


def ldam(
    logits: Shaped[Tensor, "*shape"],
    labels: Shaped[Tensor, "*any"],
    margins: Float[Tensor, " classes"],
    *,
    scale: float = 30.0,
    class_weights: Float[Tensor, " classes"] | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int = IGNORED,
) -> Float[Tensor, "*examples"]:
    """Cross-entropy of `scale·(cos - m_y·onehot(y))` (Cao et al., NeurIPS 2019)."""
    logits = check_inputs(logits, labels, ignore_index)
    return expected_loss(
        margin_log_probabilities(scale * logits, scale * per_class(margins, logits)),
        labels,
        class_weights=class_weights,
        label_smoothing=label_smoothing,
        ignore_index=ignore_index,
    )


def _check_cosines(logits: Tensor) -> None:
    """Refuse what cannot be cosines, where looking makes nothing wait."""
    if logits.device.type != "cpu" or torch.compiler.is_compiling():
        return
    largest = float(logits.detach().abs().nan_to_num(0.0).max()) if logits.numel() else 0.0
    if largest > 1.0 + ROUNDING:
        raise InputError(
            f"LDAM's logits are cosines, from -1 to 1; got {largest:.3g}. Let the model end in "
            "advshift.losses.NormalisedLinear in place of its last Linear (in a recipe: model.head = 'cosine')"
        )


class NormalisedLinear(nn.Module):
    """A head whose logits are cosines between the features and one vector per class.

    Parameters
    ----------
    in_features, out_features
        The number of features, and of classes.

    >>> import torch
    >>> bool((NormalisedLinear(8, 3)(torch.randn(5, 8)).abs() <= 1).all())
    True
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.functional.normalize(torch.randn(out_features, in_features), dim=1))

    def forward(self, features: Float[Tensor, "*batch features"]) -> Float[Tensor, "*batch classes"]:
        """Find the cosine of each example's features with each class's vector."""
        directions = nn.functional.normalize(self.weight, dim=-1)
        return nn.functional.linear(nn.functional.normalize(features, dim=-1), directions)


class LDAM(Loss):
    """Label-distribution-aware margins: a rare class must win by more.

    The logits must be cosines, as `NormalisedLinear` gives them; predict with their argmax, without margins.

    Parameters
    ----------
    class_counts
        The training examples per class.
    largest_margin
        The margin of the rarest class, in cosines.
    scale
        What the cosines are multiplied by, after the margin.
    label_smoothing, ignore_index
        As in every loss.

    >>> import torch
    >>> LDAM([16, 1])(torch.tensor([[0.3, 0.3], [0.3, 0.3]]), torch.tensor([0, 1]))
    tensor([ 7.5006, 15.0000])
    """

    name = "ldam"
    margins: Tensor

    def __init__(
        self,
        class_counts: ArrayLike,
        *,
        largest_margin: float = 0.5,
        scale: float = 30.0,
        label_smoothing: float = 0.0,
        ignore_index: int = IGNORED,
    ) -> None:
        super().__init__(label_smoothing=label_smoothing, ignore_index=ignore_index)
        if not as_number(scale) > 0.0:
            raise InputError(f"the scale of the cosines must be positive; got {scale!r}")
        self.scale = scale
        self.register_buffer("margins", ldam_margins(class_counts, largest_margin))
        if self.margins.shape[0] < 2:
            raise InputError("a margin needs at least two classes; class_counts holds one")

    def log_probabilities(self, logits: Float[Tensor, "batch classes *rest"]) -> Float[Tensor, "batch classes *rest"]:
        """See `Loss`."""
        _check_cosines(logits)
        return margin_log_probabilities(self.scale * logits, self.scale * per_class(self.margins, logits))
