"""The style sheet of the HTML report: light and dark, readable on a phone and on paper."""

STYLE = """
:root { color-scheme: light dark; --paper: #fbfbfa; --card: #ffffff; --ink: #1c2024; --soft: #60646c;
  --line: #e2e4e8;
  --good: #18794e; --good-bg: #e6f6ec; --bad: #b42318; --bad-bg: #feeceb; --patched: #0b5fc0; --patched-bg: #e6f0fd;
  --unknown: #8a5a00; --unknown-bg: #fdf3d7; --conflict: #9a2a6b; --conflict-bg: #fbe8f3; --quiet: #60646c;
  --quiet-bg: #eff0f3; }
@media (prefers-color-scheme: dark) { :root { --paper: #111315; --card: #191b1f; --ink: #edeef0; --soft: #a1a6ae;
  --line: #2e3238; --good: #7ee2a8; --good-bg: #11301f; --bad: #ff9d95; --bad-bg: #3d1714; --patched: #8cc2ff;
  --patched-bg: #10294a; --unknown: #f2cd6e; --unknown-bg: #352a0c; --conflict: #f3a4d3; --conflict-bg: #3a1529;
  --quiet: #a1a6ae; --quiet-bg: #26292f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 40px 24px 64px; }
.kicker { margin: 0; color: var(--soft); font-size: 13px; letter-spacing: .04em; }
h1 { display: flex; flex-wrap: wrap; align-items: center; gap: 12px; margin: 2px 0 4px; font-size: 28px;
  line-height: 1.25; }
h1 .chip { font-size: 14px; padding: 3px 12px; }
h2 { margin: 36px 0 8px; font-size: 18px; } h3 { margin: 24px 0 0; font-size: 15px; }
p { margin: 4px 0 12px; } section > p, .span, h3 + p { color: var(--soft); } .span b { color: var(--ink); }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); gap: 12px; margin: 20px 0 0; }
dl div { padding: 12px 16px; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
dt { color: var(--soft); font-size: 13px; } dd { margin: 0; font-size: 24px; font-weight: 600;
  font-variant-numeric: tabular-nums; }
.alert { margin: 24px 0 0; padding: 12px 16px; color: var(--conflict); background: var(--conflict-bg);
  border-radius: 10px; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
table { width: 100%; border-collapse: collapse; font-size: 14px; }
th, td { padding: 9px 14px; text-align: left; vertical-align: top; border-top: 1px solid var(--line); }
thead th { border-top: 0; color: var(--soft); font-weight: 500; font-size: 13px; }
  thead th small { font-size: 12px; }
tbody th { font-weight: 600; white-space: nowrap; font-variant-numeric: tabular-nums; }
td { overflow-wrap: anywhere; } td.name { min-width: 15em; } td.none { color: var(--line); }
td a { color: inherit; text-decoration: none; white-space: nowrap; }
  td a:hover, td a:focus { text-decoration: underline; }
.before { display: block; color: var(--soft); font-weight: 400; font-size: 12px; }
.chip { display: inline-block; padding: 1px 9px; border-radius: 999px; font-size: 13px; font-weight: 500;
  white-space: nowrap; }
.good { color: var(--good); background: var(--good-bg); } .bad { color: var(--bad); background: var(--bad-bg); }
.patched { color: var(--patched); background: var(--patched-bg); } .quiet { color: var(--quiet);
  background: var(--quiet-bg); }
.unknown { color: var(--unknown); background: var(--unknown-bg); } .conflict { color: var(--conflict);
  background: var(--conflict-bg); }
.fidelity { display: inline-block; padding: 0 6px; border: 1px solid var(--line); border-radius: 4px;
  color: var(--soft); font-size: 12px; white-space: nowrap; }
details { margin: 8px 0; padding: 8px 14px; background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; }
details .scroll { margin: 8px 0 6px; } summary { cursor: pointer; } summary b { display: inline-block;
  min-width: 7em; }
details:has(:target) { outline: 2px solid var(--patched); }
details p { scroll-margin-top: 72px; }
details td:nth-child(3), details td:nth-child(4) { white-space: nowrap; }
code { font: 12.5px/1.5 ui-monospace, SFMono-Regular, "DejaVu Sans Mono", monospace; color: var(--soft);
  overflow-wrap: anywhere; }
@media print { body { background: #fff; } .scroll, details, dl div { break-inside: avoid; } }
"""
