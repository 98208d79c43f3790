"""Rows of Einsum."""

from tests.onnx.rules.table import Case, normal


def _row(equation: str, *shapes: tuple[int, ...], note: str = "", **settings: bool) -> Case:
    return Case("Einsum", [normal(*shape) for shape in shapes], {"equation": equation}, note, **settings)


CASES = [
    # Products of two operands.
    _row("ij,jk->ik", (2, 3), (3, 4)),
    _row("ij,jk", (2, 3), (3, 4)),
    _row("ij,kj->ki", (2, 3), (4, 3)),
    _row("bhid,bhjd->bhij", (2, 2, 3, 2), (2, 2, 4, 2)),
    _row("i,j->ij", (2,), (3,)),
    _row("i,i->", (3,), (3,)),
    _row("i,i", (3,), (3,)),
    _row("ij,ij->ij", (2, 3), (2, 3)),
    _row("ij,j->i", (2, 3), (3,)),
    _row(" i j , j k -> i k ", (2, 3), (3, 2), note="spaces"),
    _row("ba,b", (2, 3), (2,), note="implicit output, alphabetical"),
    _row("Ab,bC->AC", (2, 3), (3, 4), note="small and capital"),
    _row(",ij->ij", (), (2, 3)),
    # One operand.
    _row("ij->ji", (2, 3)),
    _row("ij->ij", (2, 3)),
    _row("cba", (2, 3, 4), note="implicit transposition"),
    _row("ij->i", (2, 3)),
    _row("ij->j", (2, 3)),
    _row("ij->", (2, 3)),
    _row("i->", (4,)),
    # Labels that only one operand has are summed away.
    _row("ij,k->i", (2, 3), (4,)),
    _row("ij,jk->k", (2, 3), (3, 4)),
    _row("ij,kl->", (2, 3), (4, 2)),
    # Diagonals.
    _row("ii->i", (3, 3)),
    _row("ii->", (3, 3)),
    _row("ii", (3, 3), note="implicit trace"),
    _row("iij->ij", (2, 2, 3)),
    _row("iji->j", (2, 3, 2)),
    _row("iii->i", (2, 2, 2)),
    _row("iijj->", (2, 2, 3, 3)),
    _row("ii,i->i", (3, 3), (3,)),
    _row("ii,j->j", (3, 3), (2,)),
    _row("ii,jk->ik", (2, 2), (3, 4)),
    # Three operands, and one value in all roles.
    _row("ij,jk,kl->il", (2, 3), (3, 2), (2, 4)),
    _row("i,j,k->ijk", (2,), (3,), (4,)),
    _row("bij,bjk,b->ik", (2, 3, 2), (2, 2, 4), (2,)),
    _row("ij,ij,ij->", (2, 3), (2, 3), (2, 3)),
    # Ellipsis: the same axes, none, axes of size 1, not in front, implicit output.
    _row("...ij,...jk->...ik", (2, 2, 3), (2, 3, 4)),
    _row("...ij,jk->...ik", (2, 2, 2, 3), (3, 2), note="absent"),
    _row("...ij,...jk->...ik", (1, 2, 3), (4, 3, 2), note="size 1"),
    _row("...ij,...jk", (2, 2, 3), (2, 3, 4), note="implicit"),
    _row("i...k,j...k->...ij", (2, 5, 3), (4, 5, 3)),
    _row("i...k,j...k->...ij", (2, 1, 3), (4, 5, 3), note="size 1 inside"),
    _row("i...->...i", (2, 3, 4)),
    _row("...i->...", (2, 3, 4)),
    _row("...,...->...", (2, 3), (1, 3)),
    _row("...ii->...i", (2, 3, 3)),
    _row("i...i->...", (3, 2, 3)),
    _row("...i,j->...", (2, 3), (4,), note="summed beside an ellipsis"),
    _row("...ij,...->...i", (4, 2, 3), (1,), note="summed and broadcast"),
    # Size 1 along a named axis is broadcast too; nothing at all.
    _row("ij,jk->ik", (2, 1), (3, 4), note="size 1"),
    _row("ij,jk->ik", (2, 0), (0, 3), note="nothing to sum"),
    _row("ij->i", (0, 3), note="empty"),
]
