// The list of runs: colour, name, where each stands.

import { duration, fixed, h, whole } from './format.js';

// nameRuns gives each run the shortest end of its path that tells it from the others.
export function nameRuns(all) {
  const parts = all.map((r) => r.dir.split(/[\\/]/).filter((p) => p));
  all.forEach((r, i) => {
    let n = 1;
    const end = (p) => p.slice(-n).join('/');
    while (n < parts[i].length && parts.some((p, k) => k !== i && end(p) === end(parts[i]))) n++;
    r.label = end(parts[i]) || r.dir;
  });
}

// stateOf says how a run stands, in a word or two. A run is live while its lines keep coming, at the pace that its steps have.
export function stateOf(run) {
  if (run.steps && run.step >= run.steps) return ['done', ''];
  if (run.ended === 'stopped early') return [run.ended, ''];
  if (!run.series.length) return ['waiting for its first step', ''];
  const ago = (Date.now() - run.skew - run.changed) / 1000;
  if (ago < Math.max(15, (run.last.step_ms || 0) / 1000 * 6)) return ['live', 'live'];
  return [`quiet for ${duration(ago)}`, ''];
}

export function drawRuns(into, all, chosen, on) {
  const rows = all.map((r) => {
    const [text, kind] = stateOf(r), loss = r.last.eval_loss ?? r.last.loss;
    return h('div', { class: `run${r.id === chosen ? ' chosen' : ''}${r.shown ? '' : ' off'}`, style: { '--run': r.colour }, title: r.dir, onclick: () => on.choose(r) },
      h('input', { type: 'checkbox', checked: r.shown, 'aria-label': `show ${r.label}`, onclick(e) { e.stopPropagation(); on.toggle(r); } }),
      h('button', { class: 'name', 'aria-pressed': String(r.id === chosen) }, r.label),
      h('span', { class: 'loss', title: r.last.eval_loss !== undefined ? 'validation loss' : 'training loss' }, loss === undefined ? '' : fixed(loss)),
      h('span', { class: 'sub' }, kind ? h('i', { class: `dot ${kind}` }) : null, r.step ? `step ${whole(r.step)} · ${text}` : text));
  });
  const head = h('div', { class: 'runs-head' }, `${all.length} runs`, h('button', { class: 'push', onclick: () => on.every(true) }, 'all'), h('button', { onclick: () => on.every(false) }, 'only one'));
  // The focus stays where it was while rows are made anew.
  const focused = [...into.querySelectorAll('input, button')].indexOf(document.activeElement), top = into.scrollTop, left = into.scrollLeft;
  into.replaceChildren(head, ...rows);
  into.scrollTop = top;
  into.scrollLeft = left;
  if (focused >= 0) into.querySelectorAll('input, button')[focused]?.focus();
}
