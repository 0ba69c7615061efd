"""Formulas of a document as MathML: formulas of the notation, and LaTeX in prose."""

from __future__ import annotations

import re
from functools import cache
from html import escape
from unicodedata import category
from xml.etree import ElementTree

from viete.notation.mathml import with_signs

_ELEMENTS = frozenset(
    "math mrow mi mn mo ms mtext mspace msub msup msubsup munder mover munderover mfrac msqrt "
    "mroot mtable mtr mtd mstyle mpadded mphantom menclose mfenced".split()
)
_ATTRIBUTES = frozenset(
    "display displaystyle mathvariant stretchy fence form separator accent accentunder "
    "linethickness columnalign width lspace rspace minsize maxsize movablelimits notation "
    "columnspacing rowspacing data-key data-node data-call data-member data-row".split()
)
OPENING = ("(", "[", ",", "=", "\u2248", "\u22c5")
NO_OPERATORS = "∞∂∇∅⊤⊥…⋯"  # among the signs
OPERATORS = "·;"  # beside the mathematical signs
FUNCTIONS = ("log", "ln", "exp", "sin", "cos", "tan")  # a thin space before a bare argument
BARS = ("|", "\u2016", "\u2223", "\u2225")
THIN = '<mspace width="0.17em"/>'
ROWS = ("math", "mrow", "mtd", "mstyle", "msqrt")  # whose parts stand side by side
FACTORS = ("mi", "mn", "msub", "msup", "msubsup")
CLOSING = (")", "]", "⟩")
NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"


@cache
def math(formula: str, display: bool = False) -> str:
    """A formula as MathML, from MathML of this program or from LaTeX in prose.

    Both keep only elements that are known to be harmless; a text that cannot be read is shown
    unchanged.
    """
    for read in (own, converted):
        if (root := read(formula)) is not None:
            root.attrib = {"displaystyle": "true"} if display else {}
            return checked(root)
    return f"<code>{escape(formula)}</code>"


# A formula with the brackets and the punctuation that touch it. In docs/ a span is around it.
_TOUCHED = re.compile(
    r"""([(“"]*)(<span\ class="formula">)?(<math\b(?:(?!</math>).)*</math>)(?(2)(</span>))"""
    r"""([.,;:!?)”"]*)""", re.S | re.X,
)  # fmt: skip


def with_punctuation(html: str) -> str:
    """HTML that keeps punctuation on the line of its formula, where browsers may break."""

    def joined(m: re.Match[str]) -> str:
        return f'<span class="unbroken">{m[0]}</span>' if m[1] or m[5] else m[0]

    return _TOUCHED.sub(joined, html)


def own(formula: str) -> ElementTree.Element | None:
    """MathML elements with signs between them; None if the text has no elements."""
    if "<m" not in formula:
        return None
    try:
        return ElementTree.fromstring(f"<math>{with_signs(formula)}</math>")
    except ElementTree.ParseError:
        return None


# The name of an operator with a low line in it comes out of the converter in italics.
_WITH_LOW_LINE = re.compile(r"\\operatorname(?=\{\w*\\_)")


# A word of the plain spelling, such as softmax, which TeX would set as a product of letters. What
# stands in the braces of a command such as \text is left as it is, and so is a command's name.
_WORD = re.compile(
    r"\\(?:text\w*|math(?!ring)\w+|operatorname|mbox|begin|end)\*?\s*\{[^{}]*\}|\\[A-Za-z]+"
    r"|(?<![A-Za-z])(?P<word>(?=[A-Za-z]*[a-z])[A-Za-z]{3,}|LN|MLP|GELU)(?![A-Za-z])"
)


def upright(latex: str) -> str:
    """LaTeX in which words of the plain spelling are names of operators."""
    return _WORD.sub(
        lambda m: rf"\operatorname{{{m['word']}}}" if m["word"] else m[0], latex
    )  # fmt: skip


def converted(latex: str) -> ElementTree.Element | None:
    """LaTeX as MathML; None for LaTeX that the converter cannot read."""
    from latex2mathml.converter import convert

    try:
        latex = _WITH_LOW_LINE.sub(r"\\mathrm", upright(latex))
        root = with_spaces(with_operators(ElementTree.fromstring(convert(latex))))
        return with_tall_brackets(root)
    except Exception:  # of whatever kind: a card's prose may hold any LaTeX
        return None


def with_operators(root: ElementTree.Element) -> ElementTree.Element:
    """Signs such as × and ← are operators, with an operator's spaces; ∞ and … are not."""
    for e in root.iter():
        text, leaf = e.text or "", e.tag.removeprefix(NAMESPACE) in ("mi", "mo")
        if leaf and len(text) == 1:
            if text in NO_OPERATORS:
                e.tag = NAMESPACE + "mi"
            elif text in OPERATORS or category(text) == "Sm":
                e.tag = NAMESPACE + "mo"
    return root


def with_spaces(root: ElementTree.Element) -> ElementTree.Element:
    """A word stands apart from a factor beside it: ``2 softmax(x)``, ``logits U``."""
    for row in list(root.iter()):
        if row.tag.removeprefix(NAMESPACE) in ROWS and not is_word(row):
            for k in range(len(row) - 1, 0, -1):
                a, b = row[k - 1], row[k]
                opens = b.text not in CLOSING
                if (is_word(b) and is_factor(a)) or (is_word(a) and opens and is_factor(b)):
                    row.insert(k, ElementTree.Element(NAMESPACE + "mspace", width="0.17em"))
    return root


def with_tall_brackets(root: ElementTree.Element) -> ElementTree.Element:
    """Brackets around a fraction grow with it; each such pair gets a row of its own."""
    for row in list(root.iter()):
        if row.tag.removeprefix(NAMESPACE) in ROWS:
            group_brackets(row)
    return root


def group_brackets(row: ElementTree.Element) -> None:
    """Put each pair of brackets with a fraction between them into a row, the inner pairs first."""
    opened, k = list[int](), 0
    while k < len(row):
        bracket = row[k].text if row[k].tag == NAMESPACE + "mo" else ""
        if bracket == "(":
            opened.append(k)
        elif bracket == ")" and opened:
            first = opened.pop()
            pair = row[first : k + 1]
            if any(next(e.iter(NAMESPACE + "mfrac"), None) is not None for e in pair):
                pair[0].attrib.pop("stretchy", None)
                pair[-1].attrib.pop("stretchy", None)
                group = ElementTree.Element(NAMESPACE + "mrow")
                group.extend(pair)
                row[first : k + 1] = [group]
                k = first
        k += 1


def is_bracketed(e: ElementTree.Element) -> bool:
    """Whether an element is a row in brackets."""
    return len(e) > 0 and e.tag == NAMESPACE + "mrow" and e[0].text == "("


def is_factor(e: ElementTree.Element) -> bool:
    """Whether an element may be a factor, or the end of one."""
    if is_letters(e):
        return True
    tag, text = e.tag.removeprefix(NAMESPACE), e.text
    return text in CLOSING if tag == "mo" else tag in FACTORS and text not in (*NO_OPERATORS, "Δ")


def is_word(e: ElementTree.Element) -> bool:
    """Whether an element is a name of several letters, perhaps with an index."""
    tag, text = e.tag.removeprefix(NAMESPACE), e.text or ""
    if tag in ("msub", "msup", "msubsup"):
        return len(e) > 0 and is_word(e[0])
    named = tag in ("mi", "mo") and len(text) > 1 and text.isalpha() and text != "mod"
    return named or is_letters(e)


def is_letters(e: ElementTree.Element) -> bool:
    r"""Whether an element is a name in letters that stand by themselves, as of ``\mathrm``."""
    if e.tag.removeprefix(NAMESPACE) in ("msub", "msup", "msubsup"):
        return len(e) > 0 and is_letters(e[0])
    upright = [x.get("mathvariant") == "normal" for x in e]  # digits have no variant
    return any(upright) and all(
        up or x.tag.endswith("mn") for up, x in zip(upright, e, strict=True)
    )


def checked(e: ElementTree.Element, first: bool = False) -> str:
    """One MathML element, rebuilt from an allowed list of elements and attributes.

    ``first``: no operand stands before it, so a minus is a sign.
    """
    name, text = e.tag.removeprefix(NAMESPACE), e.text or ""
    attributes = {k: v for k, v in e.attrib.items() if k in _ATTRIBUTES}
    if name == "mo" and text in BARS and "form" not in attributes:
        attributes |= {"stretchy": "false", "lspace": "0", "rspace": "0"}  # around what is within
    elif name == "mo" and text == "mod":
        attributes |= {"lspace": "0.28em", "rspace": "0.28em"}
    elif name == "mo" and len(text) > 1 and text.isalpha() and not attributes:
        name, attributes = "mi", {}  # a function's name, without an operator's spaces
    elif name == "msub" and len(e) and e[0].text == "∑":
        name = "munder"  # below the sign where a formula stands by itself, beside it in a line
    if name == "mo" and first and text in ("-", "\u2212"):
        attributes["form"] = "prefix"
    inner, before = escape(text), None
    for child in e:
        opens = before is None or before in OPENING
        tag = child.tag.removeprefix(NAMESPACE)
        bare = before in FUNCTIONS and tag not in ("mo", "mspace") and not is_bracketed(child)
        inner += THIN if bare and name in ROWS else ""
        inner += checked(child, opens) + escape(child.tail or "")
        before = child.text if tag == "mo" or child.text in FUNCTIONS else ""
    if name not in _ELEMENTS:
        return inner
    kept = "".join(f' {k}="{escape(v)}"' for k, v in attributes.items())
    return f"<{name}{kept}>{inner}</{name}>"
