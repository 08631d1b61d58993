"""The page that every report is: one file with its styles, plots and script inside, which asks nobody for anything.

Without its script it is a plain page with everything shown; the script adds tips on hover, legends and methods that
switch series, tables that sort, and a choice of one section.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ampere_energy.reporting import plot

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 0; }
:root { --page: #f6f7f8; } @media (prefers-color-scheme: dark) { :root { --page: #14171c; } }
main { max-width: 76rem; margin: 0 auto; padding: 2rem 1.5rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p { margin: .25rem 0; } .dim { color: var(--dim); }
.badge { border: 1px solid var(--t1); color: var(--t1); border-radius: 3px; padding: 0 .4em; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 28rem), 1fr)); gap: 1rem; }
.card { background: var(--paper); border: 1px solid var(--line); border-radius: 6px; padding: .75rem 1rem;
  margin: 1rem 0; overflow-x: auto; } .cards .card { margin: 0; }
.card > svg { display: block; max-width: 100%; height: auto; margin: 0 auto; }
[hidden] { display: none !important; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: .75rem 0; }
dt { color: var(--dim); } dd { margin: 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, th { padding: .25rem .75rem .25rem 0; text-align: right; white-space: nowrap; }
th { color: var(--dim); font-weight: 500; border-bottom: 1px solid var(--line); }
td:first-child, th:first-child { text-align: left; white-space: normal; }
nav { display: flex; flex-wrap: wrap; gap: .4rem; margin: 1rem 0; }
nav a, nav button { font: inherit; color: var(--ink); background: var(--paper); border: 1px solid var(--line);
  border-radius: 4px; padding: .1rem .6rem; text-decoration: none; cursor: pointer; }
nav a.chosen { border-color: var(--t0); color: var(--t0); }
nav button::before { content: "■ "; color: var(--tint); } nav button.off { opacity: .45; }
.live th, .live .key { cursor: pointer; } .live th:hover { color: var(--ink); }
th[aria-sort="ascending"]::after { content: " ↑"; } th[aria-sort="descending"]::after { content: " ↓"; }
.key.off { opacity: .35; } .mark.off, path.off, tr.off { display: none; }
#tip { position: fixed; z-index: 1; pointer-events: none; max-width: 24rem; background: var(--ink); color: var(--paper);
  border-radius: 4px; padding: .15rem .5rem; font-size: 13px; }
@media print { nav { display: none; } }
"""

_SCRIPT = """
"use strict";
(() => {
  const all = (what, within = document) => [...within.querySelectorAll(what)];
  document.body.classList.add("live");
  all("[hidden]").forEach(e => e.hidden = false);

  const tip = document.body.appendChild(document.createElement("div"));
  tip.id = "tip"; tip.hidden = true;
  document.addEventListener("pointermove", event => {
    const mark = event.target.closest ? event.target.closest(".mark") : null;
    tip.hidden = !mark;
    if (!mark) return;
    const title = mark.querySelector("title");
    if (title && title.textContent) { mark.dataset.tip = title.textContent; title.textContent = ""; }
    tip.textContent = mark.dataset.tip;
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
  });

  const toggle = key => {
    const off = !key.classList.contains("off"), scope = key.closest("[data-together]") || key.closest("svg");
    all("[data-series]", scope).filter(e => e.dataset.series === key.dataset.series)
      .forEach(e => e.classList.toggle("off", off));
  };
  all(".key, nav button").forEach(key => {
    if (key.matches(".key")) { key.setAttribute("tabindex", "0"); key.setAttribute("role", "button"); }
    key.addEventListener("click", () => toggle(key));
    key.addEventListener("keydown", event => {
      if (key.matches(".key") && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); toggle(key); }
    });
  });

  all("th").forEach(head => {
    const sort = () => {
      const up = head.getAttribute("aria-sort") !== "ascending", body = head.closest("table").tBodies[0];
      all("th", head.parentNode).forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const value = row => row.cells[head.cellIndex].dataset.value;
      const order = (a, b) => a === "" ? 1 : b === "" ? -1 : isNaN(a) || isNaN(b)
        ? (up ? 1 : -1) * a.localeCompare(b) : (up ? 1 : -1) * (a - b);
      all("tr", body).sort((a, b) => order(value(a), value(b))).forEach(row => body.append(row));
    };
    head.setAttribute("tabindex", "0");
    head.addEventListener("click", sort);
    head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
  });

  const links = all("nav a");
  const choose = () => {
    const chosen = links.find(link => link.hash === location.hash) || links[0];
    links.forEach(link => {
      link.classList.toggle("chosen", link === chosen);
      const section = document.getElementById(link.hash.slice(1));
      if (section) section.hidden = chosen.hash !== "#all" && link !== chosen;
    });
  };
  if (links.length) { addEventListener("hashchange", choose); choose(); }
})();
"""


@dataclass(frozen=True)
class Value:
    """What a table's cell says, and what its column is sorted by: a number, or the text."""

    text: str
    sort: float | str | None = None


def document(title: str, body: str, together: bool = False) -> str:
    """The whole page; `together` switches series of one name in all its plots at once."""
    scope = ' data-together=""' if together else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'">
<title>{escape(title)}</title>{plot.STYLE}<style>{_STYLE}</style></head>
<body><main{scope}>{body}</main>
<script>{_SCRIPT}</script></body></html>
"""


def card(svg: str, caption: str = "") -> str:
    """A plot inside the page, which has its styles already and needs no name space."""
    told = f"<p>{escape(caption)}</p>" if caption else ""
    return f'<div class="card">{told}{svg.replace(plot.STYLE, "", 1).replace(plot.NAMESPACE, "", 1)}</div>'


def facts(rows: Sequence[tuple[str, str]]) -> str:
    """Names and what they are."""
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(text)}</dd>' for name, text in rows)}</dl>"


def table(heads: Sequence[str], rows: Sequence[Sequence[Value]], series: Sequence[str] = ()) -> str:
    """A table that sorts by a click on a heading; `series` names what each row belongs to, where it can be switched."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = ""
    for place, row in enumerate(rows):
        of = f' data-series="{escape(series[place])}"' if series else ""
        body += f"<tr{of}>{''.join(map(_cell, row))}</tr>"
    return f'<div class="card"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: Value) -> str:
    sort = value.text if value.sort is None else value.sort
    exact = f"{sort:.6g}" if isinstance(sort, float) else sort
    return f'<td data-value="{escape(exact)}">{escape(value.text)}</td>'
