"""Adam that touches only the rows a batch touched."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.adam import adam


class RowAdam(Optimizer):
    """Adam for tables with row-sparse gradients, `WaveEmbedding(sparse=True)`.

    A row's moments decay only when a batch holds its word, as in `torch.optim.SparseAdam`. The
    steps are the same up to where eps enters (here, as in `torch.optim.Adam`, after bias
    correction), in fewer passes over the rows.

    Args:
        params: tables (V, …) whose gradients are sparse, or groups of them.
        lr: learning rate.
        betas: decay of the mean and of the mean square of gradients.
        eps: keeps the division finite.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        if lr < 0 or eps <= 0 or not all(0 <= b < 1 for b in betas):
            raise ValueError(
                "RowAdam needs lr >= 0, eps > 0 and betas in [0, 1), "
                f"got lr={lr}, eps={eps}, betas={betas}"
            )
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update of the rows that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    self._update(table, table.grad, **{k: group[k] for k in ("lr", "betas", "eps")})
        return loss

    def _update(
        self, table: Tensor, grad: Tensor, *, lr: float, betas: tuple[float, float], eps: float
    ) -> None:
        if not grad.is_sparse:
            raise ValueError(
                "RowAdam takes row-sparse gradients, got a dense one: build the embedding with "
                "sparse=True; tables shared by all words and other layers go to torch.optim.Adam"
            )
        state = self.state[table]
        if not state:
            state["step"] = torch.zeros(())
            state["mean"], state["square"] = torch.zeros_like(table), torch.zeros_like(table)
        grad = grad.coalesce()
        rows = grad.indices()[0]
        whole = (table, state["mean"], state["square"])
        # torch's fused kernel updates the gathered rows in one pass.
        touched, mean, square = parts = [t.index_select(0, rows) for t in whole]
        adam(
            [touched],
            [grad.values()],
            [mean],
            [square],
            [],
            [state["step"]],
            fused=True,
            amsgrad=False,
            beta1=betas[0],
            beta2=betas[1],
            lr=lr,
            weight_decay=0.0,
            eps=eps,
            maximize=False,
        )
        for target, part in zip(whole, parts, strict=True):
            target.index_copy_(0, rows, part)
