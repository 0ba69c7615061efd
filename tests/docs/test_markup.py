"""What the site's hook makes of the code that Markdown writes."""

from __future__ import annotations

from tests.docs.hooks import hook

LONG = "a sentence of more than forty letters, as errors are"
WRAPS = '<span class="wraps" style="--indent: {}ch">{}</span>'

markup = hook("markup")


def test_long_sentences_wrap_and_columns_do_not() -> None:
    columns = f"one  two   {LONG}"
    assert markup.wrapped(f"short\n  {LONG}\n{columns}") == "\n".join(
        ["short", WRAPS.format(4, f"  {LONG}"), columns]
    )


def test_a_sentence_behind_a_word_wraps_below_itself() -> None:
    line = f"  holds   {LONG}"
    assert markup.wrapped(line) == WRAPS.format(10, line)


def test_a_line_that_a_pointer_stands_below_does_not_wrap() -> None:
    pointed = f"    {LONG}\n      {'^' * len(LONG)}"
    assert markup.wrapped(pointed) == pointed


def test_a_tag_over_several_lines_is_opened_in_each() -> None:
    assert markup.wrapped(f'<span class="go">{LONG}\nshort</span>') == "\n".join(
        [WRAPS.format(2, f'<span class="go">{LONG}</span>'), '<span class="go">short</span>']
    )


def test_a_long_name_in_a_table_may_break_at_its_signs() -> None:
    page = "<code>viete.ask.top_terms</code><table><td><code>{}</code></td></table>"
    shown = markup.on_page_content(page.format("viete.ask.top_terms"))
    assert "<code>viete.<wbr>ask.<wbr>top_<wbr>terms</code></td>" in shown
    assert shown.startswith("<code>viete.ask.top_terms</code>")


def test_only_code_in_blocks_is_changed() -> None:
    page = f"<p><code>{LONG}</code></p><pre><span></span><code>{LONG}</code></pre>"
    wrapped = f"<pre><span></span><code>{WRAPS.format(2, LONG)}</code></pre>"
    assert markup.on_page_content(page).endswith(wrapped)
    assert f"<p><code>{LONG}</code></p>" in markup.on_page_content(page)


def test_code_says_how_many_columns_do_not_wrap() -> None:
    columns = "one  two   " + 40 * "x"
    page = f"<pre><span></span><code>{columns}\n{2 * LONG}</code></pre>"
    assert f'<code style="--columns: {len(columns)}">' in markup.on_page_content(page)


def test_an_option_is_kept_on_one_line() -> None:
    line = "viete lesson letters-attention --exercise -o attention.pdf"
    kept = '<span class="unbroken">--exercise</span> <span class="unbroken">-o</span>'
    assert markup.wrapped(line) == WRAPS.format(2, line.replace("--exercise -o", kept))


def test_an_option_within_a_sentence_is_kept_on_one_line() -> None:
    page = "<p><code>--loss-on assistant</code> and <code>i-1 of 2-3 letters</code></p>"
    assert markup.on_page_content(page) == page.replace(
        "--loss-on", '<span class="unbroken">--loss-on</span>'
    )
