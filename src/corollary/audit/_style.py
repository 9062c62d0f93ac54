"""How the report looks: colours of both schemes, and a layout that folds on a phone."""

STYLE = """
:root { color-scheme: light dark; --page: #f6f8f9; --card: #ffffff; --ink: #1f2b36; --soft: #55616c; --line: #dde3e8;
  --fine: #23694b; --look: #855700; --problem: #a8201a; --none: #5f6b76; --on: #ffffff; --link: #1f5a94; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14181c; --card: #1d2329; --ink: #e6eaee; --soft: #a9b3bc; --line: #343d46; --fine: #7fcfa8;
    --look: #e9bd63; --problem: #ff9c94; --none: #a9b3bc; --on: #14181c; --link: #9cc7f0; }
  img { background: #ffffff; padding: 6px; border-radius: 6px; } }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; color: var(--ink);
  background: var(--page); }
main { max-width: 1080px; margin: 0 auto; padding: 24px 24px 60px; }
h1 { font-size: 25px; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 19px; margin: 0; }
h3 { font-size: 16px; margin: 0; }
code { font-size: 13px; overflow-wrap: anywhere; } .sub { color: var(--soft); margin: 2px 0 0; font-size: 14px; }
a { color: var(--link); }
.first { display: grid; grid-template-columns: 1fr 1fr; gap: 14px; margin: 18px 0 14px; }
.box, .card, .overview a { background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
.box { padding: 14px 18px; } .box ol, .box ul { margin: 8px 0 0; padding-left: 22px; } .box li { margin-bottom: 9px; }
.causes > li { list-style: none; margin: 0 0 14px -22px; } .mark + .small { margin-left: 4px; }
.headline { display: block; font-size: 18px; line-height: 1.35; margin: 2px 0; }
.box h2 + p { margin: 8px 0 0; } .facts ~ .box, .facts ~ details { margin: 0 0 12px; }
.small { color: var(--soft); font-size: 14px; } .remedy { display: none; font-weight: 600; }
.facts { color: var(--soft); font-size: 14px; margin: 0 0 14px; } .facts b { color: var(--ink); font-weight: 600; }
.overview { display: grid; gap: 8px; }
.overview a { display: grid; grid-template-columns: 130px 190px 1fr; gap: 14px; align-items: baseline;
  padding: 10px 14px; text-decoration: none; color: inherit; }
.overview a:hover { border-color: var(--soft); } .overview b { font-weight: 600; }
.mark { font-size: 13px; font-weight: 600; white-space: nowrap; }
.mark i { display: inline-block; width: 19px; height: 19px; line-height: 19px; margin-right: 6px; border-radius: 50%;
  text-align: center; color: var(--on); font-style: normal; font-size: 12px; }
.fine { color: var(--fine); } .fine i { background: var(--fine); } .look { color: var(--look); }
.look i { background: var(--look); } .problem { color: var(--problem); } .problem i { background: var(--problem); }
.none { color: var(--none); } .none i { background: var(--none); }
section { margin-top: 32px; } section > header { display: flex; justify-content: space-between; gap: 14px;
  align-items: baseline; } section > p { margin: 4px 0 12px; }
.card { display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: 6px 26px; padding: 14px 18px; margin: 10px 0; }
.card.plain { grid-template-columns: minmax(0, 1fr); }
.card img { max-width: 400px; width: 100%; height: auto; } figure { margin: 0; }
.card header { display: flex; gap: 4px 14px; align-items: baseline; flex-wrap: wrap; }
.number { font-variant-numeric: tabular-nums; font-size: 17px; font-weight: 600; }
.card p { margin: 6px 0 8px; } summary { cursor: pointer; color: var(--soft); font-size: 14px; padding: 4px 0; }
.why { color: var(--soft); font-size: 14px; } .why ul { margin: 4px 0; padding-left: 18px; }
.failed { border-color: var(--problem); } footer { margin-top: 40px; color: var(--soft); font-size: 13px; }
@media (max-width: 760px) { main { padding: 16px 12px 40px; } .first, .card { grid-template-columns: minmax(0, 1fr); }
  .remedy { display: block; } .card { padding: 12px 14px; } .card figure { margin: 0 -12px; }
  .overview a { grid-template-columns: 1fr; gap: 2px; } section > header { flex-wrap: wrap; } }
@media print { details > * { display: block; } }
"""
