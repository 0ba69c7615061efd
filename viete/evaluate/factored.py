"""A matrix as the product of two thin ones, which is never multiplied out unless asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from viete.errors import VieteError
from viete.evaluate.labelled import Array


class FactoredMatrix:
    """``M = A B`` with A (…, l, m) and B (…, m, r), for many matrices at once.

    As in TransformerLens, whose ``Vh`` is V: here ``M = U diag(S) Vh`` and Vh is (…, m, r). Arrays
    are NumPy's or PyTorch's. The product with its l · r entries is only computed where it is
    needed: singular values come from those of the factors, eigenvalues from B A. No library
    decomposes numbers of 16 bits, so what is decomposed is in float32 at least.

    Raises VieteError for factors that do not fit.
    """

    def __init__(self, A: Array, B: Array) -> None:
        if A.ndim < 2 or B.ndim < 2 or A.shape[-1] != B.shape[-2]:
            raise VieteError(
                f"matrices of shapes {tuple(A.shape)} and {tuple(B.shape)} cannot be multiplied"
            )
        self.xp = array_namespace(A, B)
        self.ldim, self.mdim, self.rdim = A.shape[-2], A.shape[-1], B.shape[-1]
        try:
            lead = tuple(self.xp.broadcast_arrays(A[..., 0, 0], B[..., 0, 0])[0].shape)
        except (ValueError, RuntimeError, TypeError):
            raise VieteError(
                f"{tuple(A.shape[:-2])} and {tuple(B.shape[:-2])} are different batch shapes"
            ) from None
        self.A = self.xp.broadcast_to(A, (*lead, self.ldim, self.mdim))
        self.B = self.xp.broadcast_to(B, (*lead, self.mdim, self.rdim))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the product."""
        return (*self.A.shape[:-1], self.rdim)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def has_leading_dims(self) -> bool:
        """Whether this is many matrices, or one."""
        return self.ndim > 2

    @property
    def pair(self) -> tuple[Array, Array]:
        """Both factors."""
        return self.A, self.B

    @property
    def AB(self) -> Array:
        """The product itself, (…, l, r)."""
        return self.A @ self.B

    @property
    def BA(self) -> Array:
        """The product in the other order, (…, m, m). Raises VieteError if l is not r."""
        self.check_square("B A is of use for")
        return self.B @ self.A

    @property
    def T(self) -> FactoredMatrix:
        """The transpose, B^T A^T."""
        return FactoredMatrix(transposed(self.B), transposed(self.A))

    # -- products ----------------------------------------------------------------------------------

    def __matmul__(self, other: Any) -> Any:
        """The product with a vector (r), giving (…, l), or with a matrix or product (…, r, s)."""
        if isinstance(other, FactoredMatrix):
            return (self @ other.A) @ other.B
        if other.ndim == 1:
            return (self.A @ (self.B @ other)[..., None])[..., 0]
        if other.shape[-2] != self.rdim:
            raise VieteError(f"shapes {self.shape} and {tuple(other.shape)} cannot be multiplied")
        if self.rdim > self.mdim:
            return FactoredMatrix(self.A, self.B @ other)
        return FactoredMatrix(self.AB, other)

    def __rmatmul__(self, other: Any) -> Any:
        """The product of a vector (l), giving (…, r), or of a matrix (…, k, l), with this."""
        if other.ndim == 1:
            return ((other @ self.A)[..., None, :] @ self.B)[..., 0, :]
        if other.shape[-1] != self.ldim:
            raise VieteError(f"shapes {tuple(other.shape)} and {self.shape} cannot be multiplied")
        if self.ldim > self.mdim:
            return FactoredMatrix(other @ self.A, self.B)
        return FactoredMatrix(other, self.AB)

    # NumPy must not split the product into products with each entry.
    __array_ufunc__ = None

    def __mul__(self, scalar: Any) -> FactoredMatrix:
        if hasattr(scalar, "shape") and tuple(scalar.shape) not in ((), (1,)):
            raise VieteError("write the product of two matrices with @, not *")
        return FactoredMatrix(self.A * scalar, self.B)

    __rmul__ = __mul__

    # -- decompositions ----------------------------------------------------------------------------

    @cached_property
    def factors(self) -> tuple[Array, Array, Array]:
        """U, S, Vh of the product, computed from the factors: at most m singular values."""
        svd = self.xp.linalg.svd
        (ua, sa, va), (ub, sb, vb) = (svd(self.single(x), full_matrices=False) for x in self.pair)
        um, s, vm = svd(sa[..., :, None] * (va @ ub) * sb[..., None, :], full_matrices=False)
        return ua @ um, s, vm @ vb

    def svd(self) -> tuple[Array, Array, Array]:
        """``U, S, V`` with ``M = U diag(S) V^T``."""
        return self.U, self.S, self.V

    @property
    def U(self) -> Array:
        """Left singular vectors as columns, (…, l, m)."""
        return self.factors[0]

    @property
    def S(self) -> Array:
        """Singular values, largest first, (…, m)."""
        return self.factors[1]

    @property
    def Vh(self) -> Array:
        """Right singular vectors as rows, (…, m, r)."""
        return self.factors[2]

    @cached_property
    def V(self) -> Array:
        """Right singular vectors as columns, (…, r, m)."""
        return transposed(self.Vh)

    @cached_property
    def eigenvalues(self) -> Array:
        """The eigenvalues of B A, (…, m): those of the product that its rank does not make 0."""
        return self.xp.linalg.eigvals(FactoredMatrix(*map(self.single, self.pair)).BA)

    def single(self, a: Array) -> Array:
        """An array in float32 at least."""
        return self.xp.astype(a, self.xp.float32) if a.dtype.itemsize < 4 else a

    def norm(self) -> Array:
        """The Frobenius norm, (…)."""
        return self.xp.sqrt(self.xp.sum(self.S * self.S, axis=-1))

    def make_even(self) -> FactoredMatrix:
        """The same product, with orthogonal columns and rows of equal lengths in its factors."""
        root = self.xp.sqrt(self.S)
        return FactoredMatrix(self.U * root[..., None, :], root[..., :, None] * self.Vh)

    def collapse_l(self) -> Array:
        """diag(S) Vh, (…, m, r): the product without the orthogonal columns on its left."""
        return self.S[..., :, None] * self.Vh

    def collapse_r(self) -> Array:
        """U diag(S), (…, l, m)."""
        return self.U * self.S[..., None, :]

    # -- parts -------------------------------------------------------------------------------------

    def __getitem__(self, where: Any) -> FactoredMatrix:
        """Some of the matrices, rows and columns, and new axes (None), as of the product's array.

        A single row or column keeps its axis, so that the result is a product. Raises VieteError
        for an index with too many axes or two ellipses.
        """
        items = list(where) if isinstance(where, tuple) else [where]
        missing = self.ndim - self.counted(items)
        dots = [k for k, x in enumerate(items) if x is Ellipsis]
        if missing < 0 or len(dots) > 1:
            raise VieteError(f"a product of shape {self.shape} has no part {where}")
        at = dots[0] if dots else len(items)
        items[at : at + 1] = [slice(None)] * missing
        lead: list[Any] = []
        core: list[Any] = []
        new: list[int] = []  # the axes of the matrix before which a new one stands
        for x in items:
            if x is None and self.counted(lead) == self.ndim - 2:
                new.append(len(core))
            elif self.counted(lead) < self.ndim - 2:
                lead.append(x)
            else:
                core.append(as_slice(x))
        rows, columns = core
        a, b = self.A[(*lead, ...)][..., rows, :], self.B[(*lead, ...)][..., columns]
        for axis in new:
            if axis == 0:
                a, b = a[..., None, :, :], b[..., None, :, :]
            elif axis == 1:  # every row is a matrix
                a, b = a[..., :, None, :], b[..., None, :, :]
            else:  # every column of a row is a row
                a, b = transposed(b)[..., None, :, :], a[..., :, :, None]
        return FactoredMatrix(a, b)

    def axes_taken(self, item: Any) -> int:
        """How many axes a part of an index takes: a mask all that it has, a new axis none."""
        if item is None or item is Ellipsis:
            return 0
        if isinstance(item, list | tuple):
            item = np.asarray(item)
        kind = str(getattr(item, "dtype", ""))
        mask = "bool" in kind or ("uint8" in kind and hasattr(self.A, "detach"))  # PyTorch's masks
        return int(item.ndim) if mask and item.ndim else 1

    def counted(self, items: Sequence[Any]) -> int:
        """How many axes the parts of an index take."""
        return sum(map(self.axes_taken, items))

    def get_corner(self, k: int = 3) -> Array:
        """The first k rows and columns of the product (of many, the first k along each axis)."""
        corner = self.A[..., :k, :] @ self.B[..., :k]
        return corner[(slice(k),) * corner.ndim]

    def unsqueeze(self, k: int) -> FactoredMatrix:
        """This product with a new batch axis of size 1."""
        at = (slice(None),) * k + (None, Ellipsis)
        return FactoredMatrix(self.A[at], self.B[at])

    def __repr__(self) -> str:
        return f"<product of shape {self.shape} and rank at most {self.mdim}>"

    def check_square(self, what: str) -> None:
        if self.ldim != self.rdim:
            raise VieteError(f"{what} only square products, not {self.ldim} × {self.rdim}")


def composition_scores(left: FactoredMatrix, right: FactoredMatrix) -> Array:
    """``|L R| / (|L| |R|)``, in Frobenius norms, for every pair of two families: (…, …)."""
    xp, lead = left.xp, left.ndim - 2
    ends, starts = left.collapse_l(), right.collapse_r()  # norms: of L, R and, multiplied, L R
    for _ in range(right.ndim - 2):
        ends = ends[..., None, :, :]
    norms = [xp.sqrt(xp.sum(xp.square(x), axis=(-2, -1))) for x in (ends, starts, ends @ starts)]
    return norms[2] / norms[0] / norms[1][(None,) * lead]


def transposed(a: Array) -> Array:
    """The array with its last two axes swapped."""
    return a.swapaxes(-2, -1)


def as_slice(index: Any) -> Any:
    """A single row as a slice of one."""
    if isinstance(index, int | np.integer) or getattr(index, "ndim", 1) == 0:
        index = int(index)
        return slice(index, index + 1 if index != -1 else None)
    return list(index) if isinstance(index, tuple) else index


__all__ = ["FactoredMatrix", "composition_scores"]
