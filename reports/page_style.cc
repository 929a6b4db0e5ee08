// The style sheet of the report page. Colours are those of Okabe and Ito, which people with any
// colour vision can tell apart; every meaning has a shape or a word beside its colour.
#include "reports/page_parts.h"

namespace mixproof::page {

const char* const kStyle = R"css(
:root{--bg:#fff;--panel:#f6f7f9;--text:#1b1f24;--soft:#57606a;--line:#d5dae0;--grid:#e6e9ed;
--good:#0072b2;--bad:#c44e00;--warn:#8a6100;--warn-bg:#fff6dc;--ok:#00754f;--fault:#a8437e;
--rate:#00875f;--mark:#e69f00;--link:#0060a0;--phase:#f1f4f8;--phase-odd:#fff;--face:#fff}
@media (prefers-color-scheme:dark){
:root{--bg:#12161b;--panel:#1b2128;--text:#e6eaef;--soft:#a3adb8;--line:#36404b;--grid:#262d36;
--good:#56b4e9;--bad:#ff8a4c;--warn:#f0c34c;--warn-bg:#2c2617;--ok:#35c596;--fault:#e08fbb;
--rate:#2fbf8f;--mark:#e69f00;--link:#7cc4f5;--phase:#1a2027;--phase-odd:#12161b;--face:#12161b}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--text);font:16px/1.5 system-ui,-apple-system,
"Segoe UI",Roboto,"Helvetica Neue","Liberation Sans",Arial,sans-serif;overflow-wrap:anywhere}
main{max-width:1100px;margin:0 auto;padding:24px 20px 64px}
h1,h2,h3{line-height:1.25;margin:0}
h1{font-size:1.9rem;display:flex;flex-wrap:wrap;gap:.2em .55em;align-items:center}
h2{font-size:1.3rem;margin:40px 0 12px;padding-bottom:6px;border-bottom:1px solid var(--line)}
h3{font-size:1.02rem;margin:18px 0 6px}
p{margin:6px 0}
ul{margin:6px 0;padding-left:20px}
.small,.note{color:var(--soft);font-size:.875em;font-weight:400}.small b,.note b{font-weight:600}
.num,td,.value{font-variant-numeric:tabular-nums}
.id,code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
font-size:.92em}
.skip{position:absolute;left:-999px;top:8px;background:var(--bg);color:var(--link);
padding:8px 12px;border:2px solid currentColor}
.skip:focus{left:8px}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}
summary{cursor:pointer;color:var(--link);padding:4px 0}
.verdict{border-left:8px solid var(--edge,var(--soft));background:var(--panel);padding:18px 22px;
border-radius:4px}
.v-pass{--edge:var(--ok)}
.v-fail,.v-error,.v-unsafe{--edge:var(--bad)}
.v-inconclusive{--edge:var(--warn)}
.product{text-transform:uppercase;letter-spacing:.08em;font-size:.75rem;color:var(--soft);
margin:0 0 6px}
.claim{font-size:1.1rem;margin:10px 0 2px}
.sentence{font-weight:600}
.badge{display:inline-flex;align-items:center;gap:.4em;font-weight:600;white-space:nowrap;
color:var(--c,var(--soft))}
h1 .badge{text-transform:uppercase}
.icon{width:1em;height:1em;flex:none;fill:currentColor;stroke:var(--face);stroke-width:1.7;
stroke-linecap:round;stroke-linejoin:round}
.icon path{fill:none}.icon circle,.icon rect{stroke:none}
.icon .face{fill:currentColor;stroke:none}
.s-pass,.s-yes{--c:var(--ok)}
.s-fail,.s-no,.s-error,.s-unsafe{--c:var(--bad)}
.s-inconclusive{--c:var(--warn)}
.warnings{list-style:none;margin:14px 0;padding:0}
.warnings li{background:var(--warn-bg);border-left:5px solid var(--warn);padding:8px 14px;
margin:6px 0;border-radius:3px}
.cards{list-style:none;padding:0;margin:0;display:grid;gap:14px;
grid-template-columns:repeat(auto-fit,minmax(min(100%,245px),1fr))}
.card{border:1px solid var(--line);border-top:4px solid var(--edge,var(--soft));border-radius:5px;
padding:12px 16px}
.c-pass{--edge:var(--ok)}
.c-fail,.c-error{--edge:var(--bad)}
.c-inconclusive{--edge:var(--warn)}
.card h3{margin:0 0 8px;display:flex;flex-wrap:wrap;gap:.2em .7em}
.measure{margin:8px 0}
.value{font-size:1.5rem;font-weight:650;margin-right:.4em}
.limit{color:var(--soft)}
.meter{display:block;width:100%;height:auto;max-width:420px}
.ends{display:flex;justify-content:space-between;color:var(--soft);font-size:.75rem;
max-width:420px;padding:0 6px}
.meter-track{fill:var(--grid)}.meter-allowed{fill:var(--good);opacity:.28}
.meter-limit{stroke:var(--text);stroke-width:2}.meter-interval{stroke:var(--text);stroke-width:2}
.meter-value{fill:var(--text);stroke:var(--bg);stroke-width:1}
figure{margin:0}
.timeline{display:block;width:100%;height:auto;font-size:12px}
.narrow{display:none}
.timeline text{fill:var(--text)}
.timeline .tick,.timeline .bound-name{fill:var(--soft);font-size:11px}
.timeline .panel-title,.timeline .phase-name{font-weight:600}
.timeline .bound-name,.timeline .lane{paint-order:stroke;stroke:var(--bg);stroke-width:3px;
stroke-linejoin:round}
.phase{fill:var(--phase)}.phase.odd{fill:var(--phase-odd)}.phase-bar{fill:var(--grid)}
.phase-bar.cut{stroke:var(--bad);stroke-dasharray:4 3}
.settle{fill:var(--soft);opacity:.13}
.axis{stroke:var(--soft)}
.grid{stroke:var(--line);stroke-dasharray:1 3}
.good{stroke:var(--good);stroke-width:4.5;stroke-linecap:round;fill:none;opacity:.75}
.bad{stroke:var(--bad);stroke-width:1.6;fill:none}
.unanswered{fill:var(--bad)}
.bound{stroke:var(--text);stroke-width:1.4;stroke-dasharray:7 4}
.fault-band{fill:var(--fault);opacity:.13}
.fault-edge{stroke:var(--fault);stroke-width:1;opacity:.7}.fault-bar{fill:var(--fault)}
.fault-bar.unproved{stroke:var(--bad);stroke-width:2;stroke-dasharray:4 3}
.event{fill:var(--bad)}.event-line{stroke:var(--bad);stroke-dasharray:2 3}
.rate{stroke:var(--rate);stroke-width:1.8;fill:none}.rate-area{fill:var(--rate);opacity:.16}
.checkpoint{fill:var(--mark);stroke:var(--text);stroke-width:.8}
.legend{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:4px 20px;font-size:.875rem;
color:var(--soft);margin:10px 0 16px}
.legend svg{width:22px;height:14px;margin-right:6px;vertical-align:-2px}
.scroll{overflow-x:auto;margin:8px 0;border:1px solid var(--line);border-radius:4px}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;vertical-align:top;padding:7px 12px;border-bottom:1px solid var(--grid);
overflow-wrap:normal}
tbody tr:last-child>*{border-bottom:0}
thead th{background:var(--panel);font-weight:600;white-space:nowrap}
tbody th{font-weight:600}
.figures td,.figures thead th{white-space:nowrap}
.figures td,.figures thead th+th{text-align:right}
.compact{font-size:.85rem}.compact th,.compact td{padding:5px 12px}
.compact td,.names th{white-space:nowrap}.compact td:last-child{white-space:normal}
.phases td:last-child{min-width:15em}
.compact.figures td:nth-child(2),.compact.figures th:nth-child(2){text-align:left}
.checks td:nth-child(3){min-width:300px}.checks td:nth-child(4){min-width:220px}
.checks details{font-size:.875rem}.checks ul,.facts{overflow-wrap:anywhere}
.fault{border:1px solid var(--line);border-left:5px solid var(--fault);border-radius:4px;
padding:12px 16px;margin:12px 0}
.fault h3{margin-top:0}
.badges{display:flex;flex-wrap:wrap;gap:4px 18px}
.facts,.events{font-size:.875rem}.facts li,.events li{margin:4px 0}
dl{margin:0}
dt{margin-top:10px}
dd{margin:4px 0}
pre{background:var(--panel);border:1px solid var(--line);border-radius:4px;padding:9px 12px;
margin:0;overflow-x:auto}
pre code{white-space:pre}
@media screen and (max-width:719px){
main{padding:14px 14px 48px}
h1{font-size:1.5rem}
h2{margin-top:32px}
.verdict{padding:14px 16px}
.wide{display:none}
.narrow{display:block}
.checks,.checks tbody,.checks tr,.checks th,.checks td{display:block;border:0;padding:0}
.checks thead{display:none}.checks tr{padding:10px 14px;border-bottom:1px solid var(--line)}
.checks tr>*{margin:3px 0}.checks td:nth-child(n){min-width:0}
.checks td:nth-child(4){color:var(--soft);font-size:.875rem}}
@media print{
@page{margin:14mm}
:root{color-scheme:light;--bg:#fff;--panel:#f6f7f9;--text:#000;--soft:#444;--line:#bbb;
--grid:#ddd;--good:#0072b2;--bad:#c44e00;--warn:#8a6100;--warn-bg:#fff6dc;--ok:#00754f;
--fault:#a8437e;--rate:#00875f;--link:#000;--phase:#f1f4f8;--phase-odd:#fff;--face:#fff}
body{font-size:10.5pt;print-color-adjust:exact;-webkit-print-color-adjust:exact}
main{max-width:none;padding:0}
.skip{display:none}
.wide{display:block}
.narrow{display:none}
.scroll{overflow:visible;border:0}
table{font-size:8.5pt}
th,td{padding:3px 6px}
.figures td,.figures thead th,thead th{white-space:normal}
.checks td:nth-child(n){min-width:0}
pre code{white-space:pre-wrap}
.card,.fault,figure,tr,.verdict{break-inside:avoid}
h2,h3{break-after:avoid}
details:not([open]){display:none}}
)css";

}  // namespace mixproof::page
