"""The mutants of a module: every change of one expression that may alter what it computes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
PAIRS = (
    *(("min", "max"), ("amin", "amax"), ("argmin", "argmax"), ("minimum", "maximum"), ("clamp_min", "clamp_max")),
    *(("any", "all"), ("floor", "ceil"), ("nanmin", "nanmax")),
)
TWINS = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}
DROPPED = {"project", "clamp", "clamp_", "clamp_min", "clamp_max", "clip", "abs", "abs_", "detach", "sqrt", "log"}
SETTINGS = {"hint", "version", "tags", "maxsize", "frozen", "slots", "eq", "compare", "repr", "strict"}  # no number
# the order of their arguments says nothing, or a swap cannot run
COMMUTATIVE = {
    *("min", "max", "minimum", "maximum", "amin", "amax", "isinstance", "issubclass", "allclose", "isclose", "equal"),
    *("array_equal", "hypot", "logical_and", "logical_or", "zip", "getattr", "setattr", "hasattr", "cast", "partial"),
}
NUMBERS = {"float", "int", "Tensor", "torch.Tensor", "np.ndarray", "Floats", "Array"}


@dataclass(frozen=True)
class Mutant:
    """One change to a module: node `node` in the order of `ast.walk`, its variant `variant`."""

    module: str
    line: int
    function: str | None
    change: str
    node: int
    variant: int


def variants(node: ast.AST, returns: str) -> Iterator[ast.AST]:
    """What may stand instead of a node; `returns` is the annotation of the function around it."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in SWAPPED:
            yield changed(node, ops=[SWAPPED[type(operator)]()])
        case ast.Compare(ops=[first, *rest]) if type(first) in SWAPPED:
            yield changed(node, ops=[SWAPPED[type(first)](), *rest])
        case ast.BinOp(op=operator) | ast.AugAssign(op=operator) if type(operator) in SWAPPED and not is_text(node):
            yield changed(node, op=SWAPPED[type(operator)]())
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.BoolOp(op=operator):
            yield changed(node, op=SWAPPED[type(operator)]())
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub(), operand=operand):
            yield deepcopy(operand)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(1 - value if value in (0, 1) else value + 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(1.0 if value == 0 else value * 1.1)
        case ast.Call():
            yield from calls(node)
        case ast.Subscript(slice=ast.Constant(value=0), ctx=ast.Load()):
            yield changed(node, slice=ast.UnaryOp(ast.USub(), ast.Constant(1)))
        case ast.Return(value=ast.Tuple(elts=[first, *middle, last])):
            yield changed(node, value=ast.Tuple([last, *middle, first], ast.Load()))
        case ast.Return(value=ast.expr() as value) if returns in NUMBERS:
            yield changed(node, value=ast.UnaryOp(ast.USub(), value))
        case ast.Return(value=ast.expr() as value) if returns == "bool":
            yield changed(node, value=ast.UnaryOp(ast.Not(), value))


def calls(node: ast.Call) -> Iterator[ast.AST]:
    match node:
        case ast.Call(
            func=ast.Name(id=name) | ast.Attribute(attr=name),
            args=[ast.Name() | ast.Attribute() as one, ast.Name() | ast.Attribute() as two, *rest],
        ) if name not in COMMUTATIVE:
            yield changed(node, args=[two, one, *rest])
    match node.func:
        case ast.Attribute(value=receiver, attr=name):
            if name in TWINS:
                yield changed(node, func=ast.Attribute(receiver, TWINS[name], ast.Load()))
            if name in DROPPED:
                is_function = isinstance(receiver, ast.Name) and receiver.id in ("torch", "np", "math", "F")
                if node.args and (is_function or name == "project"):
                    yield deepcopy(node.args[-1] if name == "project" else node.args[0])
                elif not is_function:
                    yield deepcopy(receiver)
        case ast.Name(id=name):
            if name in TWINS:
                yield changed(node, func=ast.Name(TWINS[name], ast.Load()))
            if name in DROPPED and node.args:
                yield deepcopy(node.args[0])


def changed(node: ast.AST, **fields: object) -> ast.AST:
    copy = deepcopy(node)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


def is_text(node: ast.AST) -> bool:
    """Whether an operand is a text or a list, whose sum is no arithmetic."""
    sides = [side for name in ("left", "right", "value") if (side := getattr(node, name, None)) is not None]
    kinds = (ast.JoinedStr, ast.List, ast.Tuple)
    return any(isinstance(side, kinds) or isinstance(getattr(side, "value", None), str) for side in sides)


@dataclass(frozen=True)
class Site:
    """A node that may change: its place in the tree, and the function around it (None: it acts at import)."""

    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST
    function: str | None
    returns: str

    def put(self, node: ast.AST) -> None:
        ast.copy_location(node, self.node)
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def sites(node: ast.AST, names: tuple[str, ...] = (), function: str | None = None, returns: str = "") -> Iterator[Site]:
    """Every node of a tree in a fixed order, less annotations, docstrings, assertions and error texts."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "type_ignores", "bases"):
            continue
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST) or isinstance(
                child, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom
            ):
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue
            if isinstance(child, ast.keyword) and child.arg in SETTINGS:
                continue
            inside, around, says = names, function, returns
            is_body = isinstance(node, ast.FunctionDef) and field == "body"
            if is_body and function is None and not names[-1].startswith("register_"):  # those run at import
                around = ".".join(names)
            if is_body:
                says = ast.unparse(node.returns) if node.returns else ""
            if isinstance(child, ast.ClassDef | ast.FunctionDef):
                inside = (*names, child.name)
            yield Site(node, field, index if isinstance(value, list) else None, child, around, says)
            yield from sites(child, inside, around, says)


def mutants(module: str) -> list[Mutant]:
    made = []
    for number, site in enumerate(sites(ast.parse((ROOT / module).read_text()))):
        for variant, new in enumerate(variants(site.node, site.returns)):
            change = f"{ast.unparse(site.node)} -> {ast.unparse(ast.fix_missing_locations(new))}"
            line = getattr(site.node, "lineno", 0)
            made.append(Mutant(module, line, site.function, change[:160], number, variant))
    return made


def mutated(mutant: Mutant) -> CodeType:
    path = ROOT / mutant.module
    tree = ast.parse(path.read_text())
    site = next(site for number, site in enumerate(sites(tree)) if number == mutant.node)
    site.put(list(variants(site.node, site.returns))[mutant.variant])
    return compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)


def module_name(module: str) -> str:
    return ".".join((ROOT / module).relative_to(SOURCE).with_suffix("").parts)
