// The page: what is chosen, what is drawn when something comes.

import { about, colour, css, h } from './format.js';
import { Chart } from './chart.js';
import { ask, asking, drawn, listen, listeners, range, refresh, runs, view } from './data.js';
import { drawRuns, nameRuns, stateOf } from './runs.js';
import { drawHero } from './hero.js';
import { ofStages, Stages } from './stages.js';
import { Histograms } from './histograms.js';
import { Samples } from './samples.js';
import { Rollouts } from './rollouts.js';
import { Papers } from './papers.js';

const $ = (id) => document.getElementById(id);
const charts = new Map(), spans = [0, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
let chosen = null, due = false, first = true, opened = false;

const share = {
  cross: null, range, axis: () => view.x,
  hover(x) { share.cross = x; for (const c of charts.values()) c.overlay(); stages.draw(); },
  zoom(from, to) { Object.assign(view, { from, to }); $('reset').hidden = from === null; load(); later(); },
};
const stages = new Stages($('stages'), share), histograms = new Histograms($('histograms')), samples = new Samples($('samples')), rollouts = new Rollouts($('rollouts')), papers = new Papers($('papers'));

function load() { for (const r of runs.values()) refresh(r); }

// later draws at the next frame, however much has come until then. A page that is not seen has no frames.
function later() {
  if (due) return;
  due = true;
  (document.hidden ? setTimeout : requestAnimationFrame)(draw);
}

function choose(run) { chosen = run.id; run.shown = true; load(); later(); }

function draw() {
  due = false;
  const all = [...runs.values()];
  nameRuns(all);
  all.forEach((r) => { r.colour = colour(r.id); });
  if (all.length && !runs.has(chosen)) { chosen = newest(all).id; load(); } // its stages are drawn
  const run = runs.get(chosen), shown = all.filter((r) => r.shown);
  document.querySelector('main').classList.toggle('single', all.length < 2);
  $('empty').hidden = all.length > 0;
  $('empty').textContent = 'No run here yet. This page fills as soon as one begins.';
  document.title = run ? `${run.label} – gputrain` : 'gputrain';
  drawRuns($('runs'), all, chosen, { choose, toggle(r) { r.shown = !r.shown; load(); later(); }, every(on) { all.forEach((r) => { r.shown = on || r.id === chosen; }); load(); later(); } });
  drawHero($('hero'), run);
  $('warnings').replaceChildren(...all.flatMap((r) => r.warnings.map((w) => h('span', { class: 'warning' }, all.length > 1 ? `${r.label}: ${w}` : w))));
  drawCharts(shown, run);
  stages.set(run);
  histograms.set(run);
  samples.set(run);
  rollouts.set(run);
  papers.set(run, shown);
  document.body.dataset.ready = all.every((r) => !r.shown || !r.series.length || r.curves && !asking(r)) ? 'yes' : '';
}

const newest = (all) => all.reduce((a, b) => !a || b.changed > a.changed ? b : a, null);

// choice is what of the curves of the shown runs is drawn: in charts in order, beside others in the same chart, and the rest, offered below.
function choice(shown) {
  const specs = new Map(), single = shown.length === 1;
  for (const r of shown) for (const name of r.series) { const s = about(name, r); if (s) specs.set(name, s); }
  const beside = new Map();
  if (single) for (const s of [...specs.values()]) beside.set(s.key, Object.entries(s.beside || {}).filter(([name]) => specs.delete(name)));
  let order = [...specs.values()].sort((a, b) => a.rank - b.rank || a.title.localeCompare(b.title));
  const rest = order.filter((s) => s.more).length > (single ? 6 : 3) ? order.filter((s) => s.more) : [];
  order = order.filter((s) => !rest.includes(s) || opened && matches(s));
  return { order, beside, rest };
}

drawn.of = (run) => {
  const { order, beside } = choice([...runs.values()].filter((r) => r.shown));
  const wanted = new Set(order.flatMap((s) => [s.key, ...(beside.get(s.key) || []).map(([name]) => name)]));
  return run.series.filter((name) => wanted.has(name) || run.id === chosen && ofStages(name));
};

function drawCharts(shown, run) {
  const { order, beside, rest } = choice(shown), single = shown.length === 1, keys = order.map((s) => s.key);
  for (const key of charts.keys()) if (!keys.includes(key)) { charts.get(key).element.remove(); charts.delete(key); }
  const marks = marksOf(shown), pair = keys.includes('loss') && keys.includes('eval_loss'); // side by side where runs are compared
  drawMore(rest);
  order.forEach((s, i) => {
    if (!charts.has(s.key)) charts.set(s.key, new Chart(s, share));
    const c = charts.get(s.key), at = $('charts').children[i];
    const halves = order[0].wide && !pair ? order.length - 1 : order.length;
    c.element.classList.toggle('wide', Boolean(s.wide) && !pair);
    c.element.classList.toggle('tall', pair && i < 2);
    c.element.classList.toggle('row', halves % 2 === 1 && i > 0 && i === order.length - 1);
    if (at !== c.element) $('charts').insertBefore(c.element, at || null);
    const lines = shown.flatMap((r) => line(r, s, r === run || single, shown.length > 4));
    const others = (beside.get(s.key) || []).flatMap(([name, text], k) => line(shown[0], about(name), true, false)
      .filter((l) => !lines.length || !alike(l.raw, lines[0].raw)).map((l) => ({ ...l, name: text, own: true, colour: css(k ? '--good' : '--warm'), fill: false, live: false })));
    if (others.length) lines.forEach((l) => Object.assign(l, { name: s.own, own: true }));
    lines.push(...others);
    c.set(lines, marks, shown.some((r) => r.series.includes(s.key) && !curveOf(r, s) && (asking(r) || r.curves?.x !== view.x)));
  });
}

// drawMore offers the curves that a run has beside the usual ones, where they are many.
function drawMore(rest) {
  $('more').hidden = !rest.length;
  $('more-button').textContent = opened ? 'hide further curves' : `${rest.length} further curves`;
  $('more-filter').hidden = !opened;
}

const matches = (s) => s.key.toLowerCase().includes($('more-filter').value.trim().toLowerCase());

const curveOf = (r, s) => r.curves?.x === view.x && r.curves.raw[s.key];

function line(r, s, focus, many) {
  const raw = curveOf(r, s);
  if (!raw) return [];
  const mean = view.span > 1 && !s.raw ? r.curves.mean[s.key] : null;
  const live = stateOf(r)[1] === 'live';
  return [{ name: r.label, colour: r.colour, raw, mean, dots: s.dots, focus, many, live, fill: focus && !many && s.key === 'loss' }];
}

// alike says whether two curves are the same but for what nobody sees: 1 %, and one point of twenty.
function alike(a, b) {
  return a.y.length === b.y.length && a.y.filter((v, i) => Math.abs(v - b.y[i]) > 0.01 * Math.abs(b.y[i])).length <= a.y.length / 20;
}

// marksOf are the steps from which runs went on; other axes have no place for them.
function marksOf(shown) {
  if (view.x !== 'step') return [];
  return shown.flatMap((r) => r.resumes.map((x) => ({ x, text: 'resumed', colour: shown.length > 1 ? r.colour : css('--soft') })));
}

function controls() {
  for (const x of ['step', 'tokens', 'time']) {
    $('axis').append(h('button', { 'aria-pressed': String(x === view.x), onclick(e) {
      for (const b of $('axis').children) b.setAttribute('aria-pressed', String(b === e.target));
      Object.assign(view, { x, from: null, to: null });
      share.cross = null;
      $('reset').hidden = true;
      load();
    } }, x));
  }
  const smooth = $('smooth');
  const show = () => { $('smooth-value').textContent = view.span || 'off'; };
  smooth.value = spans.indexOf(view.span);
  smooth.addEventListener('input', () => { view.span = spans[smooth.value]; show(); load(); });
  show();
  $('reset').addEventListener('click', () => share.zoom(null, null));
  addEventListener('keydown', (e) => { if (e.key === 'Escape') share.zoom(null, null); });
  $('more-button').addEventListener('click', () => { opened = !opened; load(); later(); });
  $('more-filter').addEventListener('input', () => { load(); later(); });
  $('theme').addEventListener('click', () => window.toggleTheme());
  const theme = () => { $('theme').textContent = document.documentElement.dataset.theme === 'dark' ? '☀' : '☾'; later(); };
  addEventListener('theme', theme);
  theme();
}

listeners.run.push((run, isNew) => {
  if (isNew && first && run.id > 0 && runs.size > 12) run.shown = false;
  refresh(run);
  later();
});
listeners.gone.push(later);
listeners.curves.push(later);
listeners.link.push((how) => {
  $('link').className = `link ${how}`;
  $('link').lastElementChild.textContent = how === 'on' ? 'connected' : 'not connected';
  later();
});
setInterval(later, 5000); // "12 s ago" grows older
controls();
// Which runs are shown first is decided once all are known.
ask('api/runs').then((all) => {
  const order = all.map((r) => r).sort((a, b) => b.changed - a.changed).slice(0, 12).map((r) => r.id);
  first = false;
  for (const r of all) runs.set(r.id, Object.assign(r, { shown: order.includes(r.id), curves: null, skew: Date.now() - r.now }));
  load();
  later();
}).catch(() => {}).finally(listen);
