#!/usr/bin/env python3
"""Looks through the C code for values that a garbage collection could take, in the manner of rchk.

    tools/check-protect.py [FILE.c ...]        needs libclang and its Python module (Debian: python3-clang-14)

In each function, along every path: a new value in a local variable that is not protected while something is called that
may allocate, and that is used afterwards; two arguments of one call that are both new; protections that are not taken
back where the function ends, after a loop, or by one branch and not by the other. What may allocate is found by the
calls of the package's own functions; of R's all may but those below, and every function by pointer. What is asked of
ALTREP vectors (INTEGER() and its kind) is taken not to. Values in fields of structures are not followed.
"""
import glob
import subprocess
import sys

from clang.cindex import CursorKind as Kind
from clang.cindex import Index

QUIET = set("""
Rf_protect Rf_unprotect R_ProtectWithIndex R_Reprotect R_PreserveObject R_ReleaseObject TYPEOF LENGTH XLENGTH Rf_length
Rf_xlength INTEGER REAL LOGICAL RAW COMPLEX DATAPTR DATAPTR_RO DATAPTR_OR_NULL INTEGER_RO REAL_RO LOGICAL_RO RAW_RO
COMPLEX_RO STRING_PTR STRING_PTR_RO STRING_ELT VECTOR_ELT SET_VECTOR_ELT SET_STRING_ELT INTEGER_ELT REAL_ELT LOGICAL_ELT
RAW_ELT CAR CDR CADR CDDR CADDR CDDDR CADDDR CAAR TAG SET_TAG SETCAR SETCDR SETCADR R_CHAR PRINTNAME ATTRIB SET_ATTRIB
OBJECT SET_OBJECT ALTREP ALTREP_CLASS R_altrep_data1 R_altrep_data2 R_set_altrep_data1 R_set_altrep_data2 R_altrep_inherits
IS_S4_OBJECT SET_S4_OBJECT UNSET_S4_OBJECT MARK_NOT_MUTABLE MAYBE_SHARED MAYBE_REFERENCED NO_REFERENCES NAMED
R_ExternalPtrAddr R_ExternalPtrTag R_ExternalPtrProtected R_SetExternalPtrAddr R_ClearExternalPtr R_SetExternalPtrTag
R_SetExternalPtrProtected Rf_isNull Rf_isString Rf_isReal Rf_isInteger Rf_isLogical Rf_isFactor Rf_isMatrix Rf_isFrame
Rf_isEnvironment Rf_isFunction Rf_isNewList Rf_isVectorList Rf_isVector Rf_isVectorAtomic Rf_isNumeric Rf_isObject
Rf_isSymbol Rf_inherits Rf_asInteger Rf_asLogical Rf_asReal Rf_getCharCE Rf_StringBlank R_IsNA R_IsNaN R_finite unif_rand
GetRNGstate PutRNGstate CLOENV BODY FORMALS ENCLOS FRAME HASHTAB PRVALUE PRENV PRCODE IS_LONG_VEC SETLENGTH SET_TRUELENGTH
TRUELENGTH IS_GROWABLE SET_GROWABLE_BIT LEVELS SETLEVELS Rf_duplicated IS_ASCII R_BytecodeExpr R_ClosureExpr
R_EnvironmentIsLocked R_BindingIsLocked R_BindingIsActive R_existsVarInFrame Rprintf REprintf R_FlushConsole Rf_install
R_ParentEnv R_ClosureEnv R_ClosureBody R_ClosureFormals MISSING Rf_NonNullStringMatch R_nchar Rf_nrows Rf_ncols
R_PromiseExpr R_CHK R_CheckStack R_CheckStack2
""".split())
NEVER_RETURN = {"Rf_error", "Rf_errorcall", "abort", "exit", "_exit", "R_ContinueUnwind", "R_signal_protect_error"}
# An existing value, by a function that may allocate all the same.
EXISTING = {"Rf_getAttrib", "Rf_findVar", "Rf_findVarInFrame", "Rf_findVarInFrame3", "Rf_install", "Rf_findFun",
            "R_FindNamespace", "Rf_installTrChar", "Rf_installChar", "R_getVar", "R_getVarEx"}
HOLDERS = {"SET_VECTOR_ELT": 2, "SET_STRING_ELT": 2, "SETCAR": 1, "SETCDR": 1, "SETCADR": 1, "SET_TAG": 1,
           "Rf_setAttrib": 2, "Rf_defineVar": 1, "R_set_altrep_data1": 1, "R_set_altrep_data2": 1,
           "R_PreserveObject": 0, "R_SetExternalPtrProtected": 1}


def plain(node):
    """Without parentheses and casts."""
    while node.kind in (Kind.PAREN_EXPR, Kind.UNEXPOSED_EXPR, Kind.CSTYLE_CAST_EXPR):
        inner = list(node.get_children())
        if not inner:
            break
        node = inner[-1]
    return node


def called(node):
    target = node.referenced
    if target is not None and target.kind == Kind.FUNCTION_DECL:
        return target.spelling
    return None


def is_r_name(name):
    return name.startswith(("Rf_", "R_", "SET_")) or name.isupper()


class Package:
    """The functions of all files, and which of them may allocate."""

    def __init__(self, units):
        self.functions = {}
        calls = {}
        for unit in units:
            for node in unit.cursor.get_children():
                if node.kind == Kind.FUNCTION_DECL and node.is_definition() and node.location.file.name.startswith("src/"):
                    # Static functions of two files may have one name: they count together.
                    self.functions.setdefault(node.spelling, []).append(node)
                    found = calls.setdefault(node.spelling, set())
                    found.update(called(x) for x in node.walk_preorder() if x.kind == Kind.CALL_EXPR)
        self.allocates = {name for name, found in calls.items() if any(self.foreign(x, calls) for x in found)}
        while True:
            more = {name for name, found in calls.items() if found & self.allocates} - self.allocates
            if not more:
                break
            self.allocates |= more

    @staticmethod
    def foreign(name, calls):
        if name is None:
            return True
        return name not in calls and is_r_name(name) and name not in QUIET and name not in NEVER_RETURN

    def may_allocate(self, name):
        return name in self.allocates or name not in self.functions and self.foreign(name, {})


class State:
    """Which variables hold a new value that nothing protects, and what is protected, innermost last."""

    def __init__(self, fresh=(), stack=()):
        self.fresh, self.stack = set(fresh), list(stack)

    def copy(self):
        return State(self.fresh, self.stack)


class Function:
    def __init__(self, package, node):
        self.package, self.node, self.faults = package, node, set()
        body = [x for x in node.get_children() if x.kind == Kind.COMPOUND_STMT]
        self.uses = {}
        for x in body[0].walk_preorder():
            if x.kind == Kind.DECL_REF_EXPR:
                self.uses.setdefault(x.spelling, []).append(x.location.offset)
        self.born = {}
        for x in body[0].walk_preorder():
            if x.kind == Kind.VAR_DECL:
                self.born.setdefault(x.spelling, []).append(x.location.offset)
        self.loops, self.depths, self.limit = [], (), float("inf")
        self.targets = frozenset()  # `x` of `x = f(x)`: its old value is not used any more
        self.others = ()  # branches that are not taken together with the one that is looked at
        self.made = self.made_here()
        end = self.run(body[0], State())
        if end is not None and end.stack:
            self.fault(node, f"ends with {len(end.stack)} protections left")

    def fault(self, node, text):
        self.faults.add((node.location.line, text))

    def used_after(self, name, offset):
        born = self.born.get(name, ())
        until = [(a, b) for a, b in self.loops if not any(a <= x <= b for x in born)]
        first = min((a for a, b in until), default=offset + 1)
        return any((x > offset or x >= first) and x <= self.limit and not any(a <= x <= b for a, b in self.others)
                   for x in self.uses.get(name, ()))

    def apart(self, branch, other, state, walk):
        """What `walk` makes of one branch, without the uses that are in the other."""
        before = self.others, self.limit
        if other is not None:
            self.others = (*self.others, (other.extent.start.offset, other.extent.end.offset))
        if self.leaves(branch):
            self.limit = min(self.limit, branch.extent.end.offset)
        end = walk(branch, state)
        self.others, self.limit = before
        return end

    def absent(self, condition):
        """`x` of `if (!x)`: there is nothing to protect."""
        condition = plain(condition)
        if condition.kind == Kind.UNARY_OPERATOR and next(condition.get_tokens()).spelling == "!":
            return self.variable(list(condition.get_children())[0])
        return None

    def leaves(self, node):
        """Whether a branch ends with the function."""
        if node.kind == Kind.COMPOUND_STMT:
            children = list(node.get_children())
            return bool(children) and self.leaves(children[-1])
        return node.kind == Kind.RETURN_STMT or node.kind == Kind.CALL_EXPR and called(node) in NEVER_RETURN

    def is_fresh(self, node, state):
        node = plain(node)
        if node.kind == Kind.CALL_EXPR:
            name = called(node)
            arguments = list(node.get_arguments())
            if name in ("Rf_protect", "R_ProtectWithIndex", "R_Reprotect"):
                return False
            return node.type.spelling == "SEXP" and name not in EXISTING and self.package.may_allocate(name)
        if node.kind == Kind.DECL_REF_EXPR:
            return node.spelling in state.fresh
        if node.kind == Kind.CONDITIONAL_OPERATOR:
            return any(self.is_fresh(x, state) for x in list(node.get_children())[1:])
        if node.kind == Kind.BINARY_OPERATOR and self.operator(node) == "=":
            return self.is_fresh(list(node.get_children())[1], state)
        return False

    @staticmethod
    def operator(node):
        left = list(node.get_children())[0]
        for token in node.get_tokens():
            if token.extent.start.offset >= left.extent.end.offset:
                return token.spelling
        return ""

    @staticmethod
    def variable(node):
        node = plain(node)
        if node.kind == Kind.BINARY_OPERATOR:
            node = plain(list(node.get_children())[0])
        return node.spelling if node.kind == Kind.DECL_REF_EXPR else None

    def variables(self, node):
        """`x` and `y` of `x = y`: they are one value."""
        node, out = plain(node), set()
        while node.kind == Kind.BINARY_OPERATOR and self.operator(node) == "=":
            left, node = list(node.get_children())
            out.add(self.variable(left))
            node = plain(node)
        return out | {self.variable(node)}

    def assign(self, name, value, state):
        if self.is_fresh(value, state):
            state.fresh.add(name)
        else:
            state.fresh.discard(name)

    def call(self, node, state):
        name = called(node)
        arguments = list(node.get_arguments())
        if name in ("Rf_protect", "R_ProtectWithIndex"):
            state.stack.append(self.variable(arguments[0]))
            state.fresh -= self.variables(arguments[0])
        elif name == "R_Reprotect":
            state.fresh -= self.variables(arguments[0])
        elif name == "Rf_unprotect":
            count = [t.spelling for t in arguments[0].get_tokens()]
            if len(count) == 1 and count[0].isdigit():
                for _ in range(int(count[0])):
                    if not state.stack:
                        self.fault(node, "takes back more protections than there are")
                        break
                    held = state.stack.pop()
                    if held and held not in state.stack and held in self.made:
                        state.fresh.add(held)
            else:
                self.fault(node, "takes back a number of protections that is not written here")
                state.stack.clear()
        elif self.package.may_allocate(name):
            for held in sorted(state.fresh):
                if self.used_after(held, node.extent.end.offset) and held not in self.targets:
                    self.fault(node, f"`{held}` is not protected while {name or 'a function by pointer'}() may allocate")
            new = [x for x in arguments if plain(x).kind == Kind.CALL_EXPR and self.is_fresh(x, state)]
            other = [x for x in arguments if any(y.kind == Kind.CALL_EXPR and self.package.may_allocate(called(y))
                                                 for y in x.walk_preorder())]
            if new and len(other) > 1:
                self.fault(node, f"a new argument of {name}() is not protected while another is made")
        if name in HOLDERS:
            state.fresh.discard(self.variable(arguments[HOLDERS[name]]))

    def made_here(self):
        """Variables that are given new values somewhere in the function: not protected any more, these are new again."""
        out = set()
        for x in self.node.walk_preorder():
            children = list(x.get_children())
            if x.kind == Kind.BINARY_OPERATOR and self.operator(x) == "=":
                name, value = self.variable(children[0]), children[1]
            elif x.kind == Kind.VAR_DECL and children:
                name, value = x.spelling, children[-1]
            else:
                continue
            if self.is_fresh(value, State()) or self.from_protect(value):
                out.add(name)
        return out

    def from_protect(self, node):
        node = plain(node)
        return (node.kind == Kind.CALL_EXPR and called(node) == "Rf_protect"
                and self.is_fresh(list(node.get_arguments())[0], State()))

    def expression(self, node, state):
        """Carries out what an expression does, in C's order as far as it has one. False: it does not return."""
        if node.kind == Kind.BINARY_OPERATOR and self.operator(node) == "=":
            left, right = list(node.get_children())
            name = self.variable(left)
            old, self.targets = self.targets, self.targets | {name}
            back = self.expression(right, state)
            self.targets = old
            if plain(left).kind == Kind.DECL_REF_EXPR:
                self.assign(name, right, state)
                if self.from_protect(right) and state.stack:
                    state.stack[-1] = name
            return back
        if node.kind == Kind.VAR_DECL:
            values = [x for x in node.get_children() if x.kind.is_expression()]
            if not values:
                return True
            back = self.expression(values[-1], state)
            self.assign(node.spelling, values[-1], state)
            inner = plain(values[-1])
            if inner.kind == Kind.CALL_EXPR and called(inner) == "Rf_protect" and state.stack:
                state.stack[-1] = node.spelling
            return back
        children = list(node.get_children())
        if node.kind == Kind.CONDITIONAL_OPERATOR:
            ends = []
            back = self.expression(children[0], state)
            for branch, other in (children[1:], children[:0:-1]):
                end = state.copy()
                if self.apart(branch, other, end, self.expression):
                    ends.append(end)
            state.fresh = set().union(*(x.fresh for x in ends))
            return back and bool(ends)
        for child in children:
            if not self.expression(child, state):
                return False
        if node.kind == Kind.CALL_EXPR:
            if called(node) in NEVER_RETURN or self.is_noreturn(node):
                return False
            self.call(node, state)
        return True

    @staticmethod
    def is_noreturn(node):
        target = node.referenced
        return target is not None and any(t.spelling in ("_Noreturn", "NORETURN", "noreturn")
                                          for t in target.get_tokens()) and target.kind == Kind.FUNCTION_DECL

    def merge(self, node, ends):
        ends = [x for x in ends if x is not None]
        if not ends:
            return None
        if len({len(x.stack) for x in ends}) > 1:
            self.fault(node, "the branches leave different numbers of protections")
        out = ends[0].copy()
        for x in ends[1:]:
            out.fresh |= x.fresh
        return out

    def run(self, node, state):
        """The state after a statement, None where it does not go on."""
        kind, children = node.kind, list(node.get_children())
        if kind == Kind.COMPOUND_STMT:
            for child in children:
                if state is None and child.kind not in (Kind.CASE_STMT, Kind.DEFAULT_STMT, Kind.LABEL_STMT):
                    continue
                state = self.run(child, state)
            return state
        if kind == Kind.IF_STMT:
            if not self.expression(children[0], state):
                return None
            yes, no = children[1], children[2] if len(children) > 2 else None
            entry = state.copy()
            entry.fresh.discard(self.absent(children[0]))
            ends = [self.apart(yes, no, entry, self.run)]
            ends.append(self.apart(no, yes, state.copy(), self.run) if no is not None else state)
            return self.merge(node, ends)
        if kind in (Kind.FOR_STMT, Kind.WHILE_STMT, Kind.DO_STMT):
            return self.loop(node, children, state)
        if kind == Kind.SWITCH_STMT:
            self.expression(children[0], state)
            entry, ends, current = state, [state.copy()], None
            for child in children[1].get_children():
                while child.kind in (Kind.CASE_STMT, Kind.DEFAULT_STMT):
                    current = entry.copy() if current is None else current
                    child = list(child.get_children())[-1]
                if current is not None:
                    if child.kind == Kind.BREAK_STMT:
                        ends.append(current)
                        current = None
                    else:
                        current = self.run(child, current)
            return self.merge(node, ends + [current])
        if kind == Kind.RETURN_STMT:
            for child in children:
                if not self.expression(child, state):
                    return None
            if state.stack:
                self.fault(node, f"returns with {len(state.stack)} protections left")
            return None
        if kind in (Kind.BREAK_STMT, Kind.CONTINUE_STMT):
            if self.loops and len(state.stack) != self.depths[-1]:
                self.fault(node, "leaves a round of the loop with other protections than it began with")
            return None
        if kind == Kind.DECL_STMT or kind.is_expression() or kind == Kind.NULL_STMT:
            return state if all(self.expression(x, state) for x in ([node] if kind.is_expression() else children)) else None
        if kind == Kind.LABEL_STMT:
            return self.run(children[-1], state or State())
        for child in children:
            state = self.run(child, state) if state is not None else None
        return state

    def loop(self, node, children, state):
        depth = len(state.stack)
        self.loops.append((node.extent.start.offset, node.extent.end.offset))
        before, self.depths = self.depths, (*self.depths, depth)
        own = {x.spelling for x in node.walk_preorder() if x.kind == Kind.VAR_DECL}
        for _ in range(2):
            round_end = state.copy()
            for child in children:
                if round_end is None:
                    break
                round_end = self.run(child, round_end)
            if round_end is not None:
                if len(round_end.stack) != depth:
                    self.fault(node, "a round of the loop changes the number of protections")
                state.fresh |= round_end.fresh - own
        self.depths = before
        self.loops.pop()
        return state


def compiler_flags():
    headers = subprocess.run(["R", "CMD", "config", "--cppflags"], capture_output=True, text=True, check=True).stdout
    builtin = glob.glob("/usr/lib/llvm-14/lib/clang/*/include")
    return ["-std=gnu11", "-Iinst/include", "-Isrc", "-D_GNU_SOURCE", *headers.split(), *["-I" + x for x in builtin[:1]]]


def main():
    files = sys.argv[1:] or sorted(glob.glob("src/*.c"))
    flags = compiler_flags()
    units = [Index.create().parse(file, args=flags) for file in sorted(glob.glob("src/*.c"))]
    for unit in units:
        bad = [x for x in unit.diagnostics if x.severity >= 3]
        if bad:
            sys.exit(f"check-protect: {unit.spelling} cannot be read: {bad[0].spelling}")
    package = Package(units)
    count = seen = 0
    for node in (x for same in package.functions.values() for x in same):
        if node.location.file.name not in files:
            continue
        seen += 1
        for line, text in sorted(Function(package, node).faults):
            count += 1
            print(f"{node.location.file.name}:{line}: {node.spelling}(): {text}")
    print(f"check-protect: {seen} functions, {count} faults")
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
