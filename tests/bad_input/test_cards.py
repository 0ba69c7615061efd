"""Wrong cards: each gets one sentence that points at the mistake, exit code 2 and no file.

A case is an edit of `tiny.md`. The guillemets in the new text stand where the caret must: under
that stretch, and no other. Where the mistake shows only elsewhere, its line is given instead.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import viete as vt
from tests.command_line import viete

TINY = Path(__file__).with_name("tiny.md").read_text("utf-8")
HEADS = "| $H$ | 2 | heads |\n"

# fmt: off
CASES = [
    ("one letter twice", "$Q^{i,h} = u^i W_Q^{i,h}$", "$Q_h^{i,«h»} = u^i W_Q^{i,h}$",
     None, "h is in this name twice, and a family has each letter once"),
    ("struck through", "$y = argmax(s)$", "«~~$y = argmax(s)$~~»",
     None, "what is struck through is no part of a card; delete it, or the ~~ around it"),
    ("unknown symbol", "Q^{i,h} = u^i W_Q", "Q^{i,h} = «z»^i W_Q", None, "unknown symbol z"),
    ("unknown symbol with a near one", "twice(a^i)$", "«twise»(a^i)$",
     None, "unknown function twise; did you mean twice?"),
    ("misspelled function", "y = argmax(s)", "y = «argmx»(s)",
     None, "unknown function argmx; did you mean argmax"),
    ("misspelled library function", "softmax(visible", "«sofmax»(visible",
     None, "unknown function sofmax; did you mean softmax"),
    ("unknown label", "u^i W_Q^{i,h}$", "u^i «W_R^{i,h}»$",
     None, "unknown symbol W_R^{i,h}", "W_Q^{i,h}"),
    ("a family without its index", "u^i W_Q^{i,h}$", "u^i «W_Q»$",
     None, "W_Q is one value for each i and h; write W_Q^{i,h}, or numbers for the l"),
    ("half of the indices", "u^i W_Q^{i,h}$", "u^i «W_Q^i»$",
     None, "W_Q^i is one value for each i and h; write W_Q^{i,h}, or numbers for the"),
    ("unbound index", "Q^{i,h} = u^i W_Q^{i,h}", "Q^{i,h} = u^i W_Q^{i,«j»}",
     None, "unknown symbol j"),
    ("block index outside its loop", "s = x^N W_U", "s = x^«i» W_U",
     None, "the index i is bound to nothing here"),
    ("head index left over",
     r"a^i = \sum_h A^{i,h} V^{i,h} W_O^{i,h}",
     "a^i = «A^{i,h} V^{i,h} W_O^{i,h}»",
     None, "the right side differs for every h, so the left side needs the index h t"),
    ("block not made yet", "u^i = LN(x^{i-1}; ", "u^i = LN(«x^{i+1}»; ",
     None, "x^{i+1} does not exist yet: blocks are computed in the order"),
    ("same block, later line", "u^i = LN(x^{i-1}; ", "u^i = LN(«a^i»; ",
     None, "these equations are circular: u^i needs a^i needs V^{i,h} needs u^i"),
    ("a block beyond the loop", "s = x^N W_U", "s = «x^{N+1}» W_U",
     None, "no equation before this one defines x^{N+1}"),
    ("missing base case", "1. $x^0 = E[t]$: one row for each token\n", "1. $w = E[t]$\n",
     47, "x^{i-1} does not exist in the first block; an equation before the loop m"),
    ("use before definition", "Q^{i,h} = u^i W_Q^{i,h}", "Q^{i,h} = «s» u^i W_Q^{i,h}",
     None, "these equations are circular: Q^{i,h} needs s needs x^i ne"),
    ("never defined", "s = x^N W_U", "s = x^N «R»", None, "unknown symbol R"),
    ("value of itself", "s = x^N W_U", "s = «s» W_U",
     None, "these equations are circular: s needs s"),
    ("cyclic equations",
     "s = x^N W_U$: scores\n   - Shape: (n, V)\n10. $y = argmax(s)$",
     "s = «q» W_U$\n10. $q = s + 1$",
     None, "these equations are circular: s needs q needs s"),
    ("symbol in a claim", "x^N = x^0 + 2", "x^N = «z»^0 + 2", None, "unknown symbol z"),
    ("symbol in a derived name", "W_V^{i,h} W_O^{i,h}$: what", "W_V^{i,h} «W_P^{i,h}»$: what",
     None, "unknown symbol W_P^{i,h}; declared with this letter: W_Q^{i,h}, W_K^{i,h"),
    ("symbol in a function", "= a x$: a function", "= a «E»$: a function",
     None, "unknown symbol E"),
    ("ambiguous run of letters", "s = x^N W_U", "s = x^N W_U + «dkk»",
     None, "unknown symbol dkk; did you mean d_k?"),
    ("product", "s = x^N W_U", "s = «W_U x^N»",
     None, "W_U has shape (d, V) and x^N has shape (n, d): the inner sizes V and n d"),
    ("sum", "x^{i-1} + twice(a^i)", "«x^{i-1} + E»", None, "sum: (n, d) and (V, d) do not match"),
    ("entry by entry", "x^{i-1} + twice(a^i)", "«x^{i-1} ⊙ E»",
     None, "entry-by-entry product: (n, d) and (V, d) do not match"),
    ("star between matrices", "x^{i-1} + twice(a^i)", "«x^{i-1} * a^i»", None, "* is for numbers"),
    ("two vectors side by side", "LN(x^{i-1}; γ^i, 0, ε)", "x^{i-1} + «γ^i γ^i»",
     None, "two vectors (d) and (d) side by side: write <u, v> for the inner product"),
    ("inner product of matrices", "LN(x^{i-1}; γ^i, 0, ε)", "«<x^{i-1}, x^{i-1}>»",
     None, "two vectors"),
    ("inner product of lengths", "γ^i, 0, ε)", "γ^i, «<γ^i, t>», ε)",
     None, "an inner product needs two vectors of one length, not (d) and (n)"),
    ("transpose of a vector", "γ^i, 0, ε)", "«{γ^i}^⊤», 0, ε)",
     None, "only a matrix has a transpose, and this has shape (d)"),
    ("rows of concat", "s = x^N W_U", "s = «concat(x^N, E)» W_U",
     None, "these have different numbers of rows: (n, d), (V, d)"),
    ("concat of a number", "s = x^N W_U", "s = «concat(x^N, 1)» W_U",
     None, "only vectors, or matrices of equally many rows, can be concatenated"),
    ("stated shape", "Shape: (n, V)", "Shape: «(n, d)»",
     None, "the shape stated for s is (n, d), but its equation gives (n, V)"),
    ("stated rank", "Shape: (n, V)", "Shape: «(V)»", None, "stated for s"),
    ("stated shape of no dimension", "Shape: (n, V)", "Shape: (n, «Z»)", None, "unknown symbol Z"),
    ("three sizes", "Shape: (n, V)", "Shape: («n, V, d»)", None, "at most two sizes"),
    ("function pattern", "twice(a^i)$", "twice(«γ^i»)$", None, "twice takes x: n × d, not (d)"),
    ("function pattern twice the same size",
     "$twice(x: n × d; a = 2) = a x$",
     "$twice(x: n × n; a = 2) = a x$",
     53, "same n everywhere"),
    ("shape inside a function", "= a x$: a function", "= a x x$: a function",
     53, "in twice((n, d))", "inner sizes"),
    ("entry of a number", "Q^{i,h} = u^i", "Q^{i,h} = «ε_t» u^i",
     None, "an index on epsilon, which is one number"),
    ("three indices", "Q^{i,h} = u^i", "Q^{i,h} = u^i_{1,2,«3»}", None, "at most two indices"),
    ("too many indices", "γ^i, 0, ε)", "«γ^i_{1,2}», 0, ε)",
     None, "2 indices on gamma^i, which is of shape (d)"),
    ("index beyond the size", "γ^i, 0, ε)", "γ^i_{«6»}, 0, ε)",
     None, "6 is not an index: the places of gamma^i are 0 to 5 (d = 6)"),
    ("slice beyond the size", "s = x^N W_U", "s = x^N W_U[«:7»]",
     None, ":7 goes beyond what there is: d = 6 places"),
    ("slice between two places", "s = x^N W_U", "s = x^N W_U[«:d / 4»]",
     None, "ends between places: d/4 = 3/2 is not a whole number"),
    ("slice that ends before it starts", "s = x^N W_U", "s = x^N W_U[«5:2»]", None, "ends before"),
    ("slice outside brackets", "s = x^N W_U", "s = x^N W_U «:» 2", None, "':' cannot stand here"),
    ("sum of a number", "s = x^N W_U", "s = x^N W_U + «sum(2)»", None, "sum of one number"),
    ("rows of a vector", "γ^i, 0, ε)", "γ^i, «rows(γ^i)», ε)", None, "has no rows"),
    ("two shapes for one family", "x^0 = E[t]", "x^0 = E[t] W_U",
     47, "in LN((n, V), (d), (), ()): entry-by-entry product: (d) and "),
    ("two heads where one counts", "V^{i,h} W_O^{i,h}$\n", "V^{i,h} W_O^{i,«j»}$\n",
     None, "unknown symbol j"),
    ("condition as an index", "s = x^N W_U", "s = x^N[«t < 3»] W_U", None, "it is a condition"),
    ("quotient as an index", "s = x^N W_U", "s = x^N[«t / 3»] W_U", None, "floor(t / 3) is"),
    ("number as a condition", "s = x^N W_U", "s = where(«t», x^N W_U, 0)", None, "not a condition"),
    ("and of numbers", "s = x^N W_U", "s = where(«t» and m = 1, 1, 0)", None, "not a condition"),
    ("two comparisons in a row", "s = x^N W_U", "s = where(1 < t «<» 3, 1, 0) + x^N W_U",
     None, "join two comparisons with 'and'"),
    ("entry of a table", "s = x^N W_U", "s = table_{j<n, k<V}(«γ^1»)",
     None, "table's entry must be one number"),
    ("table over a letter in use", "s = x^N W_U", "s = «table_{h<n, k<V}(1)»", None, "h is in use"),
    ("table without a size", "s = x^N W_U", "s = table_{«j»}(1)", None, "range such as j < n"),
    ("table of three", "s = x^N W_U", "s = «table»_{j<n, k<V, l<d}(1)", None, "one or two"),
    ("sum that does not depend", r"a^i = \sum_h A^{i,h} V^{i,h} W_O^{i,h}", r"a^i = «\sum_h u^i»",
     None, "nothing under this sum depends on h"),
    ("sum over an unknown index", r"a^i = \sum_h A", r"a^i = \sum_j A", 52, "j has no range"),
    ("sum without an index", r"a^i = \sum_h A", r"a^i = «\sum» A", None, "needs an index below"),
    ("sum with one bound", r"a^i = \sum_h A", r"a^i = «\sum»_{h=1} A", None, "both bounds"),
    ("concat of blocks", "s = x^N W_U", "s = «concat_{i=1}^{N}(x^i)» W_U",
     None, "blocks cannot be concatenated"),
    ("unclosed parenthesis", "argmax(s)", "argmax«(»s", None, "( is never closed; expected )"),
    ("unopened parenthesis", "argmax(s)", "argmax(s)«)»",
     None, "nothing was opened that this closes"),
    ("unclosed bracket", "E[t]", "E«[»t", None, "[ is never closed"),
    ("unclosed brace", "x^N W_U", "x^«{»N W_U", None, "{ is never closed"),
    ("wrong bracket", "argmax(s)", "argmax(s«]»", None, "expected )"),
    ("unclosed dollar", "$s = x^N W_U$: scores", "«$»s = x^N W_U: scores",
     None, "this $ is never closed; a formula stands between two $"),
    ("no dollars and prose", "$y = argmax(s)$", "«the biggest»",
     None, "equation is written name = expression"),
    ("quotient of a product",
     r"causal(Q^{i,h} {K^{i,h}}^⊤ / \sqrt{d_k})",
     "causal(Q^{i,h} / «d {K^{i,h}}^⊤»)",
     None, "a/(b c) or (a/b) c"),
    ("two operators", "x^N W_U", "x^N + «*» W_U", None, "'*' cannot stand here"),
    ("nothing after the operator", "x^N W_U$", "x^N W_U +«$»", None, "ends too early here"),
    ("nothing after the sign", "y = argmax(s)", "y «=»",
     None, "an expression must follow the = sign"),
    ("no left side", "y = argmax(s)", "«= argmax(s)»", None, "name before the = sign"),
    ("expression on the left", "y = argmax(s)", "y «+» 1 = argmax(s)",
     None, "the left side of an equation is one name: '+' cannot stand h"),
    ("empty argument", "LN(x^{i-1}; γ^i, 0, ε)", "LN(x^{i-1}; «,» 0, ε)",
     None, "',' cannot stand here"),
    ("empty script", "x^N W_U", "x^{«}» W_U", None, "this script is empty"),
    ("no script", "x^N W_U", "x^«(»N) W_U", None, "expected a script after ^"),
    ("unknown command", "x^N W_U", r"x^N «\foo» W_U", None, r"no LaTeX command \foo"),
    ("unknown environment", "x^N W_U", r"«\begin»{matrix} W_U", None, "only {cases}"),
    ("unknown character", "x^N W_U", "x^N «☃» W_U", None, "no character '☃'"),
    ("font without braces", "x^N W_U", r"x^N «\mathrm» + W_U", None, r"\mathrm needs a plain word"),
    ("accent over nothing", "x^N W_U", r"\hat{«3»} W_U", None, "name must stand under"),
    ("fraction without braces", "x^N W_U", r"\frac «1» 2 W_U", None, "expected {"),
    ("too many arguments", "argmax(s)", "«argmax»(s, s)", None, "argmax takes 1 argument, not 2"),
    ("too few arguments", "argmax(s)", "«where»(s, 1)", None, "where takes 3 arguments, not 2"),
    ("arguments of a card's function", "twice(a^i)", "«twice»(a^i, 1, 2)",
     None, "twice takes 1 to 2 arguments, not 3"),
    ("function without arguments", "argmax(s)", "«argmax» + s",
     None, "argmax is a function: write argmax(…)"),
    ("no arguments at all", "argmax(s)", "«argmax»()", None, "argmax takes 1 argument, not 0"),
    ("a number too big", "x^N W_U", "«1e999999» x^N W_U",
     None, "1e999999 is too large a number"),
    ("500 digits", "x^N W_U", "«" + "9" * 500 + "» x^N W_U", None, "400 digits"),
    ("division by zero", "x^N W_U", "x^N W_U 1 / «0»", None, "this divides by zero"),
    ("inner product with one part", "x^N W_U", "⟨x^N«⟩» W_U", None, "expected ,"),
    ("cases without otherwise", "x^N W_U", r"\begin{cases} 1 & t < 3 «\end{cases}»",
     None, "expected"),
    ("dimension twice", HEADS, HEADS + "| $d$ | «7» | again |\n",
     None, "the dimension d is declared twice"),
    ("dimension without a name", HEADS, HEADS + "| «|» 7 | again |\n",
     None, "a row needs a symbol in its symbol column"),
    ("dimension of no number", HEADS, "| $H$ | «two» | heads |\n", None, "unknown symbol two"),
    ("cyclic dimensions", HEADS, "| $H$ | $«d_k»$ | heads |\n", None, "define each other"),
    ("dimension of itself", HEADS, "| $H$ | $«H + 1»$ | heads |\n", None, "define"),
    ("dimension divided by zero", HEADS, HEADS + "| $z$ | $d / «0»$ | |\n",
     None, "this divides by zero"),
    ("dimension divided by a zero dimension",
     HEADS,
     HEADS + "| $z$ | 0 | |\n| $y$ | $«d / z»$ | |\n",
     None, "y divides by zero"),
    ("dimension that is a quotient by a sum", HEADS, HEADS + "| $z$ | $«d / (H + 1)»$ | |\n",
     None, "z must be a number or a product of dimensions"),
    ("zero heads", HEADS, "| $H$ | 0 | heads |\n", 13, "d_k divides by zero"),
    ("a symbol that is an expression", "| $d$ | 6 | width |", "| $d «+» 1$ | 6 | width |",
     None, "'+' cannot stand here"),
    ("a symbol that is a number", "| $d$ | 6 | width |", "| $«7»$ | 6 | width |",
     None, "begin with a letter"),
    ("dimension using an equation", HEADS, "| $H$ | $«s»$ | heads |\n", None, "unknown symbol s"),
    ("range of an index", "| $h$ | $1, …, H$ | head |", "| $h$ | $1, …, «G»$ | head |",
     None, "unknown symbol G"),
    ("range without an end", "| $h$ | $1, …, H$ | head |", "| $h$ | $1, …«$» | head |",
     None, "the formula ends too early here"),
    ("range twice",
     "| $h$ | $1, …, H$ | head |",
     "| $h$ | $1, …, H$ | head |\n| $h$ | $«1, …, H»$ | head |",
     None, "the index h is declared twice"),
    ("index that is a dimension too",
     "| $h$ | $1, …, H$ | head |",
     "| $h$ | $1, …, H$ | head |\n| $h$ | «3» | head |",
     None, "the dimension h is declared twice"),
    ("length beyond nothing",
     "| $n$ | $≤ n_{max}$ | length of the text |",
     "| $n$ | $≤ «m_x»$ | length |",
     None, "unknown symbol"),
    ("length without bound",
     "| $n$ | $≤ n_{max}$ | length of the text |",
     "| $n$ | $≤«$» | length |",
     None, "an expression is missing here"),
    ("input twice", "- $m ∈", "- $«t ∈ \\{0, 1\\}^n»$\n- $m ∈",
     None, "the input t is declared twice"),
    ("input without a set", r"- $t ∈ \{0, …, V-1\}^n$", "- $«t»$", None, "an input is written"),
    ("input of no set", r"- $t ∈ \{0, …, V-1\}^n$", "- $«t ∈ ℚ^n»$", None, "an input is written"),
    ("input of an empty set", r"- $t ∈ \{0, …, V-1\}^n$", r"- $t ∈ \{«\»}^n$",
     None, "a set of whole numbers is written {0, …, V − 1}"),
    ("input with an unclosed set", r"- $t ∈ \{0, …, V-1\}^n$", r"- $«t ∈ \{0, …, V-1^n»$",
     None, "an input is written"),
    ("input of unknown size", r"- $t ∈ \{0, …, V-1\}^n$", r"- $t ∈ \{0, …, V-1\}^«k»$",
     None, "unknown symbol k"),
    ("input up to an unknown size", r"- $t ∈ \{0, …, V-1\}^n$", r"- $t ∈ \{0, …, «Z»-1\}^n$",
     None, "unknown symbol Z"),
    ("something after an input", r"\}^n = 1$: which", r"\}^n «where n = 1»$: which",
     None, "only a default value"),
    ("default of no number", r"\}^n = 1$: which", r"\}^n = «x»$: which", None, "unknown symbol x"),
    ("no inputs section",
     "## Inputs\n\n- $t ∈ \\{0, …, V-1\\}^n$: token ids\n- $m ∈ \\{0, 1\\}^n = 1$: "
     "which of them are text\n", "",
     37, "unknown symbol t"),
    ("input used as a parameter", r"| $E$ | $V \times d$ |", r"| $«t»$ | $V \times d$ |",
     None, "t is both an input and a parameter"),
    ("parameter twice", "| $W_U$ |", "| $«E»$ | $d$ | | |\n| $W_U$ |",
     None, "the parameter E is declared twice"),
    ("parameter missing", "| $W_U$ | $d \\times V$ | | unembedding |\n", "",
     56, "unknown symbol W_U"),
    ("parameter with an equation",
     "s = x^N W_U$: scores\n   - Shape: (n, V)\n10. $y = argmax(s)$",
     "«W_U = x^N W_U»$",
     None, "W_U is given in line 33, so no equation can define it"),
    ("parameter as long as the text", r"| $W_U$ | $d \times V$ |", r"| $«W_U»$ | $d \times n$ |",
     None, "W_U cannot have the size n"),
    ("parameter with three sizes",
     r"| $W_U$ | $d \times V$ |",
     r"| $W_U$ | $«d \times V \times 2»$ |",
     None, "at most two sizes"),
    ("parameter of unknown size", r"| $W_U$ | $d \times V$ |", r"| $W_U$ | $d \times «Z»$ |",
     None, "unknown symbol Z"),
    ("parameter without a shape", r"| $W_U$ | $d \times V$ |", "| $W_U$ | |",
     58, "the shape stated for s is (n, V), but its equation gives (n, d)"),
    ("parameter with an unknown index", "| $γ^i$ |", "| $γ^j$ |",
     47, "unknown symbol γ^i; declared with this letter: gamma^j"),
    ("parameter with too many cells",
     r"| $W_U$ | $d \times V$ | | unembedding |",
     r"| $W_U$ | $d \times V$ | | unembedding | «more» |",
     None, "more cells"),
    ("column misspelled",
     "| symbol | shape | init | meaning |",
     "| symbol | «shap» | init | meaning |",
     None, "no column is called 'shap'; there are symbol, value, shape, config, is,"),
    ("column missing",
     "| symbol | shape | init | meaning |\n| --- | --- | --- | --- |",
     "| «symbol» | value | init | meaning |\n| --- | --- | --- | --- |",
     None, "needs a column 'shape'"),
    ("column twice",
     "| symbol | shape | init | meaning |",
     "| symbol | shape | «shape» | meaning |",
     None, "two columns of this table are the shape"),
    ("unclosed dollar in a cell", r"| $W_U$ | $d \times V$ |", r"| $W_U | $d \times V$ |",
     33, "the $ signs in this cell do not pair up"),
    ("unclosed brace in a name", "| $W_U$ | $d", "| $W_«{»U$ | $d", None, "never closed"),
    ("size by a quotient", r"| $W_U$ | $d \times V$ |", r"| $W_U$ | $d \times 8 / 2$ |",
     58, "the shape stated for s is (n, V), but its equation gives (n,"),
    ("parameter size with spaces", r"| $W_U$ | $d \times V$ |", "| $W_U$ | $d V$ |",
     57, "x^N has shape (n, d) and W_U has shape (V d): the inner size"),
    ("function twice", "## Forward pass", "- $«twice(x) = x»$\n\n## Forward pass",
     None, "function twice already exists"),
    ("function named like a primitive", "$twice(x: n × d; a = 2) = a x$", "$«exp(x) = x»$",
     None, "function exp already exists"),
    ("recursive function", "= a x$: a function", "= a «twice»(x)$: a function",
     None, "unknown function twice"),
    ("function without a body", "= a x$: a function", "=«$»: a function",
     None, "the formula ends too early here"),
    ("function without arguments 2", "$twice(x: n × d; a = 2) = a x$", "$«twice = 2»$",
     None, "name(arguments) = body"),
    ("function with an argument twice", "$twice(x: n × d; a = 2) = a x$", "$«twice(x, x) »= x$",
     None, "names an argument twice"),
    ("function with an empty argument", "$twice(x: n × d; a = 2) = a x$", "$«twice(x,) = x»$",
     None, "argument"),
    ("function with a required argument after a default",
     "$twice(x: n × d; a = 2) = a x$",
     "$«twice(a = 2, x) »= a x$",
     None, "x needs a default, since a before it has one"),
    ("function argument pattern empty",
     "$twice(x: n × d; a = 2) = a x$",
     "$«twice(x: n × ; a = 2) = a x»$",
     None, "x: n × d"),
    ("function default of a name",
     "$twice(x: n × d; a = 2) = a x$",
     "$twice(x: n × d; a = «d») = a x$",
     None, "unknown symbol d"),
    ("function with a bad name", "$twice(x: n × d; a = 2) = a x$", "$«2»(x) = x$",
     None, "begin with a letter"),
    ("function with a tail", "= a x$: a function", "= a x «)»$: a function",
     None, "nothing was opened"),
    ("loop over a head", "For $i = 1, …, N$:", "For $«h = 1, …, N»$:",
     None, "h is declared under Dimensions as an axis; a loop needs a letter of its "),
    ("loop to nothing", "For $i = 1, …, N$:", "For $i = 1, …, «M»$:", None, "unknown symbol M"),
    ("loop without a range", "For $i = 1, …, N$:", "«For $i$:»",
     None, "a loop is written For $i = 1, …, N$:"),
    ("loop misspelled", "For $i = 1, …, N$:", "«Four $i = 1, …, N$:»",
     None, "a loop is written For $i = 1, …, N$:"),
    ("loop in a loop", "For $i = 1, …, N$:", "For $i = 1, …, N$:\n\nFor $«l = 1, …, N»$:",
     None, "l runs inside of the loop over i; loops do not nest: write one loop"),
    ("loop in a loop, after its equations",
     "3. $Q^{i,h} = u^i W_Q^{i,h}$", "For $l = 1, …, N$:\n\n3. $«Q^{i,h} = u^i W_Q^{i,h}»$",
     None, "l runs inside of the loop over i; loops do not nest: write one loop"),
    ("loop with two letters", "For $i = 1, …, N$:", "For $«i = 1, …, N$ and $l = 1, …, N»$:",
     None, "a loop has one letter, and loops do not nest: write one loop that takes"),
    ("equation in the line of its loop",
     "For $i = 1, …, N$:", "For $«i = 1, …, N$: $z^i = x^0»$",
     None, "the equations of a loop stand below its For line, each on a line of its own"),
    ("loop that runs backwards", "For $i = 1, …, N$:", "For $i = N, …, 1$:",
     47, "x^{i-1} does not exist in the first block; an equation befor"),
    ("after the end of the loop",
     "9. $s = x^N W_U$: scores\n   - Shape: (n, V)\n",
     "9. $s = x^N W_U$\n9. $«b^i = x^i»$\n",
     None, "after the end of its loop"),
    ("equation twice", "10. $y = argmax(s)$", "10. $«s = 1»$",
     None, "s is already defined in line 57"),
    ("equation for an input", "10. $y = argmax(s)$", "10. $«t = argmax(s)»$",
     None, "t is given in line 21"),
    ("equation with another index", "3. $Q^{i,h} = u^i", "3. $Q^{i,g} = u^i",
     51, "unknown symbol Q^{i,h}; declared with this letter: Q^{i,g}"),
    ("derived twice", "## Claims", "- «$W_{OV}^{i,h} = W_Q^{i,h}$»\n\n## Claims",
     None, "W_OV^{i,h} is already defined above"),
    ("derived like an equation", "## Claims", "- «$s = 2$»\n\n## Claims",
     None, "s is already defined above"),
    ("claim that claims nothing", r"x^N = x^0 + 2 \sum_{i=1}^{N} a^i$", "«x^N»$",
     None, "a claim needs a relation, such as = or ≤"),
    ("claim with different shapes", "x^N = x^0 + 2", "x^N = W_U + 2",
     67, "sum: (d, V) and (n, d) do not match"),
    ("section misspelled", "## Forward pass", "## «Foward pass»",
     None, "did you mean Forward Pass"),
    ("section misspelled 2", "## Parameters", "## «Paramters»", None, "did you mean Parameters"),
    ("no forward pass", "## Forward pass", "## Prose",
     None, "no equations; a card lists them under a heading"),
    ("no dimensions", "## Dimensions", "## Something else", 21, "unknown symbol"),
    ("no parameters", "## Parameters", "## Something else", 41, "unknown symbol"),
    ("table under no heading", "## Dimensions", "Sizes:", 7, "under no heading"),
    ("parameters as a list", r"| $W_U$ | $d \times V$ | | unembedding |", "- «$W_U$: d x V»",
     None, "the section Parameters has a table, and this item would not be read"),
    ("stated shape unclosed", "Shape: (n, V)", "Shape: (n«,» V",
     None, "expected ) here, found ','"),
    ("a letter that is a loop and a value", "10. $y = argmax(s)$", "10. $«i = argmax(s)»$",
     None, "i is an index letter, so no equation can define it"),
    ("value named like a function", "10. $y = argmax(s)$", "10. $«exp = argmax(s)»$",
     None, "exp is a function, so no equation can define it"),
    ("value named like an index", "10. $y = argmax(s)$", "10. $«h = argmax(s)»$",
     None, "h is an index letter, so no equation can define it"),
    ("parameter named like a dimension", "| $W_U$ | $d", "| $V$ | $d",
     57, "unknown symbol W_U; declared with this letter: W_Q^{i,h}, W_"),
    ("a row with too few cells", r"| $W_U$ | $d \times V$ | | unembedding |", "| «$W_U$» |",
     None, "this row has 1 of the table's 4 cells"),
    ("an init of no kind", "| $d$ | 1 | scale", "| $d$ | «gaussian» | scale",
     None, "init must be normal(s), uniform(a), xavier or a number"),
    ("an init of no dimension", "normal(1)", "normal(«Z»)", None, "unknown symbol Z"),
    ("xavier for a vector", "| $d$ | 1 | scale", "| $d$ | «xavier» | scale",
     None, "xavier needs a matrix"),
    ("a dtype of no kind", "| symbol | shape | init | meaning |\n| --- | --- | --- | --- |\n"
     "| $E$ | $V \\times d$ | normal(1)",
     "| symbol | shape | dtype | meaning |\n| --- | --- | --- | --- |\n"
     "| $E$ | $V \\times d$ | «flot32»", None, "dtype must be one of float64, float32"),
    ("a Cyrillic letter", "s = x^N W_U", "s = «х»^N W_U",
     None, "no character 'х', U+0445 CYRILLIC SMALL LETTER HA; write the Latin x"),
    ("a Greek letter like a Latin one", "s = x^N W_U", "s = x^«Ν» W_U",
     None, "U+039D GREEK CAPITAL LETTER NU; write the Latin N"),
    ("a Cyrillic letter in a LaTeX word", "s = x^N W_U", r"s = \mathrm{v«а»lue} W_U",
     None, "no character 'а', U+0430 CYRILLIC SMALL LETTER A; write the Latin a"),
    ("a prime", "s = x^N W_U", "s = «W_U'»", None, "unknown symbol W_U'; "),
    ("a full-width letter", "s = x^N W_U", "s = «ｘ»^N W_U", None, "; write the Latin x"),
    ("a number with two points", "s = x^N W_U", "s = «0.1.2» x^N W_U", None, "is not a number"),
    ("a number with a space in it", "s = x^N W_U", "s = 10 «000» x^N W_U",
     None, "two numbers stand side by side"),
    ("a sum that ends too early", r"\sum_h A", r"\sum_h h «*» A",
     None, "the sum over h ends before"),
    ("a sum of some heads", r"a^i = \sum_h A^{i,h}", r"a^i = \sum_{h=1}^{1} A^{i,«h»}",
     None, "h takes 1 values here, and h has H: it must take them all"),
    ("indices forgotten on the left", "5. $V^{i,h} = u^i W_V^{i,h}$", "5. $«V = u^i W_V^{i,h}»$",
     None, "the right side differs for every i, so the left side needs the index i too"),
    ("an index without its loop", "For $i = 1, …, N$:\n", "",
     46, "i is a label here, and an index under a line For $i = 1, …, N$:"),
    ("an index on a function's name", "y = argmax(s)", "y = «softmax»_k(s)",
     None, "an index goes behind: softmax(…)_k"),
    ("a value named like a dimension it needs", "10. $y = argmax(s)$", "10. $V = s + 1 / «V»$",
     None, "circular: V needs V; V is also a dimension"),
    ("an accent that nothing has", "s = x^N W_U", r"s = «\tilde{R}» W_U",
     None, "unknown symbol \\tilde{R}\n"),
    ("a token of no vocabulary", "E[t]", 'E[«"ab"»]', None, '"ab" is not a word of the vocabulary'),
    ("code among the equations", "## Derived", "«```»\n11. $z = y$\n```\n\n## Derived",
     None, "code is not a part of a card's Forward"),
    ("raw HTML among the equations", "## Derived", "«<div>»\n11. $z = y$\n</div>\n\n## Derived",
     None, "raw HTML is not a part of a card's Forward"),
    ("a comment that never ends", "## Derived", "«<!--»\n\n## Derived", None, "never closed"),
    ("a fence that never ends", "Two blocks", "«```»\nTwo blocks", None, "never closed"),
    ("an equation under another heading", "### Unembedding", "## Unembedding",
     57, "for a part of the forward pass write ### Unembedding"),
    ("a second formula on a line", "10. $y = argmax(s)$", "10. $y = argmax(s)$, «$z = s$»",
     None, "a second formula in one item"),
    ("a row below a blank line", HEADS, "\n«" + HEADS.strip() + "»\n",
     None, "a blank line ends a table"),
    ("no row of dashes", "| symbol | value | meaning |\n| --- | --- | --- |",
     "| symbol | value | meaning |", 7, "a table has a row of dashes below its header"),
    ("equations that are displayed alone", "10. $y = argmax(s)$", "\n«$$y = argmax(s)$$»",
     None, "this equation is not an item of the list"),
    ("ambiguous run",
     HEADS,
     HEADS + "| $AB$ | 2 | |\n| $A$ | 2 | |\n| $B$ | 2 | |\n| $z$ | $«ABAB»$ | |\n",
     None, "ABAB can be read as"),
]
# fmt: on


def marked(base: str, old: str, new: str) -> tuple[str, tuple[int, int, int] | None]:
    """The edited text, and (line, column, width) of what stands between the guillemets."""
    assert base.count(old) == 1, f"{old!r} stands {base.count(old)} times in the card"
    text = base.replace(old, new)
    start, end = text.find("«"), text.find("»") - 1
    text = text.replace("«", "").replace("»", "")
    if start < 0:
        return text, None
    line_start = text.rfind("\n", 0, start) + 1
    return text, (text.count("\n", 0, start) + 1, start - line_start + 1, max(1, end - start))


def refused(*argv: str) -> str:
    """What the command line says on stderr; it must end with 2, and print nothing else."""
    said = viete(*argv, code=2)
    assert said.out == "" and said.err.startswith("viete: ") and "Traceback" not in said.err
    return said.err.removeprefix("viete: ")


def check_place(said: str, file: Path, text: str, place: tuple[int, int, int]) -> None:
    """The message's file:line:column, and the caret under the right stretch of the right line."""
    line, column, width = place
    assert said.startswith(f"{file}:{line}:{column}: ")
    _, shown, caret = said.rstrip("\n").split("\n")
    under = text.split("\n")[line - 1][column - 1 : column - 1 + width]
    at = caret.index("^")
    assert caret.strip() == "^" * min(width, 120)
    assert shown[at : at + len(caret.strip())] == under[: len(shown) - at]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"), [pytest.param(o, n, at, w, id=i) for i, o, n, at, *w in CASES]
)
def test_card(old, new, line, words, tmp_path, capsys, monkeypatch) -> None:
    text, place = marked(TINY, old, new)
    file = tmp_path / "card.md"
    file.write_text(text, "utf-8")
    said = refused("show", str(file), "-o", str(tmp_path / "out.md"))
    if place is not None:
        check_place(said, file, text, place)
    elif line is not None:
        assert said.startswith(f"{file}:{line}:")
    else:
        assert said.startswith(f"{file}: ")
    assert [w for w in words if w not in said] == []
    assert [p.name for p in tmp_path.iterdir()] == ["card.md"]


# The same mistakes in the two other formats, by what `write` makes of the card.
LATEX = [
    ("unknown symbol", r"E[t]", r"E[«z»]", "unknown symbol z"),
    ("misspelled function", r"{argmax}(s)", r"{argmx}(s)", "did you mean argmax"),
    ("misspelled section", r"n*{Parameters}", r"n*{«Paramters»}", "did you mean Parameters"),
    ("misspelled column", r"symbol & shape &", r"symbol & «shap» &", "no column is called 'shap'"),
    ("no section", r"\section*{Forward pass}", "", "name(arguments) = body"),
    ("unclosed bracket", r"{argmax}(s)", r"{argmax}«(»s", "never closed"),
    ("shapes", r"$s = x^N W_U$", r"$s = «W_U x^N»$", "inner sizes V and n differ"),
    ("too many cells", r"& embedding \\", r"& embedding & «more» \\", "more cells"),
]
JSON = [
    ("unknown symbol", '"x^0 = E[t]"', '"x^0 = E[«z»]"', "unknown symbol z"),
    ("misspelled function", '"y = argmax(s)"', '"y = «argmx»(s)"', "did you mean argmax"),
    ("dollar signs", '"y = argmax(s)"', '"«$y = argmax(s)$»"', "one line without dollar signs"),
    ("shapes", '"s = x^N W_U"', '"s = «W_U x^N»"', "inner sizes V and n differ"),
    ("a wrong field", '"forward":', '"foward":', 'no field "foward"'),
    ("a wrong column", '"init": "1"', '"inti": "1"', 'no column "inti"'),
    ("a number", '"y = argmax(s)"', "7", '"equation" must be a string, not 7'),
    ("a list", '"dimensions": [', '"dimensions": [3,', '"dimensions" must be a list of objects'),
    ("another schema", "viete-card/1", "viete-card/9", '"schema": "viete-card/1"'),
    ("no JSON", '"title":', '"title"', "this is not JSON"),
    ("half a character", '"Tiny"', r'"\ud800"', "lone surrogate"),
]


@pytest.mark.parametrize(("form", "old", "new", "word"), [
    *(pytest.param("latex", *rest, id=f"LaTeX: {i}") for i, *rest in LATEX),
    *(pytest.param("json", *rest, id=f"JSON: {i}") for i, *rest in JSON),
])  # fmt: skip
def test_other_formats(form, old, new, word, tmp_path, capsys, monkeypatch) -> None:
    text, place = marked(vt.read(TINY).write(form), old, new)
    file = tmp_path / f"card.{form}"
    file.write_text(text, "utf-8")
    said = refused("show", str(file), "-o", str(tmp_path / "out.md"))
    if place is not None:
        check_place(said, file, text, place)
    assert str(file) in said and word in said
    assert [p.name for p in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("at", range(0, len(CASES), 40))
def test_as_a_program(at: int, tmp_path) -> None:
    """A handful as people meet them: another process, its exit code and its streams."""
    _, old, new, _, *words = CASES[at]
    file = tmp_path / "card.md"
    file.write_text(marked(TINY, old, new)[0], "utf-8")
    found = subprocess.run([sys.executable, "-m", "viete.cli.main", "show", str(file)],
                           capture_output=True, text=True, encoding="utf-8")  # fmt: skip
    assert (found.returncode, found.stdout) == (2, "")
    assert words[0] in found.stderr and "Traceback" not in found.stderr


def test_the_card_itself_is_right() -> None:
    assert vt.read(TINY).title == "Tiny"
