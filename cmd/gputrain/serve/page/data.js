// What is known of the runs: summaries that events bring, and the curves of the part in view, of which only what is new is asked for.

export const runs = new Map();   // by number
export const view = { x: 'step', from: null, to: null, span: 32 };
export const drawn = { of: () => [] };   // the names of the series of a run that are drawn: no others are asked for
export const listeners = { run: [], gone: [], curves: [], link: [] };

const tell = (what, ...args) => listeners[what].forEach((f) => f(...args));
const buckets = 700, longest = 16_000; // letters of names in one request
const pending = new Map();

export async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

// listen follows the runs for as long as the page is seen: browsers allow few connections to one server.
export function listen() {
  let source = null;
  const open = () => {
    source = new EventSource('api/events');
    source.onopen = () => tell('link', 'on');
    source.onerror = () => tell('link', 'off');
    source.addEventListener('run', (e) => take(JSON.parse(e.data)));
    source.addEventListener('gone', (e) => {
      runs.delete(+e.data);
      tell('gone', +e.data);
    });
  };
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) { source?.close(); source = null; } else if (!source) open();
  });
  open();
}

function take(summary) {
  const old = runs.get(summary.id);
  const run = Object.assign(old || { shown: true, curves: null }, summary, { skew: Date.now() - summary.now });
  runs.set(summary.id, run);
  tell('run', run, !old);
}

// range is the part of the axis in view: what was zoomed into, or all that the shown runs have.
export function range() {
  if (view.from !== null) return [view.from, view.to];
  let low = Infinity, high = -Infinity;
  for (const r of runs.values()) {
    if (!r.shown || !r.curves || r.curves.x !== view.x || !Object.keys(r.curves.raw).length) continue;
    low = Math.min(low, r.curves.low);
    high = Math.max(high, r.curves.high);
  }
  return low <= high ? [low, high] : [0, 1];
}

// extent guesses how long a run is on the axis, to choose buckets before anything of it has come.
function extent(run) {
  if (run.curves?.x === view.x) return run.curves.high - run.curves.low;
  return view.x === 'tokens' ? run.last.tokens || 1 : view.x === 'time' ? run.time || 1 : run.step || 1;
}

const power = (v) => 2 ** Math.ceil(Math.log2(v));

export const asking = (run) => pending.has(run.id);

// refresh asks for what a run lacks of the view. Calls while it asks are one more call after it.
export async function refresh(run) {
  if (!run.shown || !run.series.length) return;
  if (pending.has(run.id)) { pending.set(run.id, true); return; }
  pending.set(run.id, false);
  try {
    await fill(run);
  } catch (e) {
    console.error(e); // the next event tries again
  }
  const again = pending.get(run.id);
  if (again) setTimeout(() => { pending.delete(run.id); refresh(run); }, 250); // until then it asks: what it has is of an earlier view
  else pending.delete(run.id);
  tell('curves', run);
}

async function fill(run) {
  const zoomed = view.from !== null;
  let bucket = power(Math.max((zoomed ? view.to - view.from : extent(run)) / buckets, view.x === 'time' ? 1e-3 : 1e-9));
  if (view.x !== 'time') bucket = Math.max(1, bucket);
  const names = drawn.of(run);
  const key = [view.x, view.from, view.to, view.span, bucket, run.rewound, ...names].join();
  const have = run.curves, now = { ...view };
  if (have?.key === key && have.version >= run.version) return;
  if (have?.key === key && zoomed && have.high > view.to) { have.version = run.version; return; }
  let from = zoomed ? view.from : null;
  const tail = have?.key === key && Object.keys(have.raw).length > 0;
  if (tail) from = Math.floor(have.high / bucket) * bucket;
  const query = (span) => {
    const q = new URLSearchParams({ run: run.id, x: now.x, bucket });
    if (from !== null) q.set('from', from);
    if (zoomed) q.set('to', now.to);
    if (span) q.set('span', span);
    if (names.join().length < longest) for (const name of names) q.append('key', name); // else all
    return ask(`api/curves?${q}`);
  };
  const [raw, mean] = await Promise.all([query(0), now.span > 1 ? query(now.span) : null]);
  if (now.x !== view.x || now.from !== view.from || now.to !== view.to || now.span !== view.span) {
    pending.set(run.id, true);
    return;
  }
  if (raw.rewound !== run.rewound) { pending.set(run.id, true); if (tail) return; }
  const curves = tail ? have : { raw: {}, mean: {} };
  Object.assign(curves, { key, x: now.x, low: raw.low, high: raw.high, version: raw.version, bucket });
  merge(curves.raw, raw.series, tail ? from : null);
  merge(curves.mean, mean?.series || {}, tail ? from : null);
  run.curves = curves;
}

// merge puts the new end of each series in the place of the old one.
function merge(into, series, from) {
  for (const [name, s] of Object.entries(series)) {
    const old = into[name];
    if (!old || from === null) { into[name] = s; continue; }
    const keep = bound(old.x, from), skip = bound(s.x, from);
    old.x = old.x.slice(0, keep).concat(s.x.slice(skip));
    old.y = old.y.slice(0, keep).concat(s.y.slice(skip));
    old.bad = old.bad.slice(0, bound(old.bad, from)).concat(s.bad.slice(bound(s.bad, from)));
  }
}

// bound is the number of ascending values below v.
export function bound(values, v) {
  let low = 0, high = values.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (values[mid] < v) low = mid + 1; else high = mid;
  }
  return low;
}

// nearest is the index of the value nearest to v, or -1.
export function nearest(values, v) {
  const i = bound(values, v);
  if (i === values.length) return i - 1;
  return i > 0 && v - values[i - 1] < values[i] - v ? i - 1 : i;
}
