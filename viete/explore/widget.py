"""The page in a notebook: a widget that the kernel answers, or the page in a frame."""

from __future__ import annotations

import html
from functools import cache
from typing import Any
from uuid import uuid4

from viete.errors import VieteError
from viete.explore.page_file import page_html, part, style
from viete.explore.session import Session, plain, refusal

WITHOUT = (
    "This page carries its values and computes nothing new, because anywidget is not installed: "
    "pip install viete[notebook], and run the cell again."
)
HEIGHT = 760  # pixels of the frame
MOST = 4_000_000  # characters of a page that is saved with its notebook


class PageFrame:
    """The page file in a frame, which a saved notebook shows again."""

    def __init__(self, session: Session, why: str = "") -> None:
        self.page, self.why = page_html(session.data), why

    def _repr_html_(self) -> str:
        said = f"<p>{html.escape(self.why)}</p>" if self.why else ""
        return (
            f'{said}<iframe srcdoc="{html.escape(self.page)}" sandbox="allow-scripts" '
            f'loading="lazy" title="Viète: the page of a run" '
            f'style="width:100%;height:{HEIGHT}px;border:0">'
            f"</iframe>"
        )

    def __repr__(self) -> str:
        return f"<page of a run, {len(self.page):,} characters; a notebook shows it>"


def explored(session: Session) -> Any:
    """The widget of a session; without anywidget the page in a frame, with a note."""
    try:
        import anywidget  # noqa: F401
    except ImportError:
        return PageFrame(session, WITHOUT)
    return widget_class()(session)


@cache
def widget_class() -> type:
    """The class of the widget: anywidget is an extra, imported only when a page is wanted."""
    import anywidget
    import traitlets

    class PageWidget(anywidget.AnyWidget):
        """The page as a widget: a session answers its messages, its saved state is a page file."""

        _esm = part("page.esm.js")
        _css = style()
        data = traitlets.Dict().tag(sync=True)
        live = traitlets.Bool(True).tag(sync=True)
        saved = traitlets.Unicode().tag(sync=True)

        def __init__(self, session: Session) -> None:
            super().__init__(data=session.data, saved=uuid4().hex)
            self.session = session
            self.on_msg(self.receive)

        def _repr_mimebundle_(self, **kwargs: Any) -> Any:
            """The widget; and for a saved notebook, which has no kernel, the page in a frame."""
            bundle, about = super()._repr_mimebundle_(**kwargs)
            return bundle | self.in_a_frame(), about

        def _ipython_display_(self) -> None:
            """Show the widget, then the frame: given both in one, Jupyter shows only the widget.

            A live widget hides the frame of its ``saved``.
            """
            from IPython.display import display

            bundle, about = super()._repr_mimebundle_()
            display(bundle, metadata=about, raw=True)
            if frame := self.in_a_frame():
                display(frame, raw=True)

        def in_a_frame(self) -> dict[str, str]:
            """The page file as HTML; empty where it is too large to be saved with a notebook."""
            frame = PageFrame(self.session)
            if len(frame.page) > MOST:
                return {}
            shown = f'<div data-viete-saved="{self.saved}">{frame._repr_html_()}</div>'
            return {"text/html": shown, "text/plain": repr(frame)}

        def receive(self, widget: Any, message: Any, buffers: Any) -> None:
            """Answer a message, or give the reason for refusing it in one sentence."""
            number = message.get("id") if isinstance(message, dict) else None
            try:
                answer = plain(self.session.answer(message))
            except VieteError as error:
                answer = {"error": refusal(error)}
            self.send({**answer, "id": number})

    return PageWidget


__all__ = ["PageFrame", "explored"]
