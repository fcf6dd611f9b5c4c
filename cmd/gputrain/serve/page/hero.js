// The chosen run in a few figures.

import { duration, fixed, h, number, rewarded, short, whole } from './format.js';
import { stateOf } from './runs.js';

export function drawHero(into, run) {
  if (!run) { into.replaceChildren(); return; }
  const [text, kind] = stateOf(run), share = run.steps ? Math.min(1, run.step / run.steps) : 0;
  const fact = (label, value, unit, under, more = '') => h('div', { class: `fact ${more}`, 'data-fact': label }, h('div', { class: 'label' }, label),
    h('div', { class: 'value' }, value, unit ? h('small', {}, unit) : null), h('div', { class: 'under' }, under || ' '));
  const l = run.last, facts = [], best = bestOf(run);
  const loss = run.curves?.mean.loss?.y.at(-1) ?? l.loss;
  facts.push(fact('step', run.step ? whole(run.step) : '–', run.steps ? `of ${whole(run.steps)}` : '', left(run, kind)));
  if (l.loss !== undefined) facts.push(fact('training loss', fixed(loss), '', l.loss === null ? 'last step not finite' : `last step ${fixed(l.loss)}`, l.loss === null ? 'bad' : ''));
  if (l.eval_loss !== undefined && rewarded(run)) facts.push(fact('validation reward', fixed(0 - l.eval_loss), '', best !== null && best < l.eval_loss - 5e-4 ? `best was ${fixed(0 - best)}` : ''));
  else if (l.eval_loss !== undefined) facts.push(fact('validation loss', fixed(l.eval_loss), '', best !== null && best < l.eval_loss - 5e-4 ? `best was ${fixed(best)}` : run.counts === 'tokens' ? `perplexity ${number(Math.exp(l.eval_loss), 4)}` : ''));
  if (l.tokens_per_second !== undefined) {
    const rate = run.curves?.mean.tokens_per_second?.y.at(-1) ?? l.tokens_per_second;
    facts.push(fact('throughput', short(rate), `${run.counts}/s`, `${short(l.tokens || 0)} ${run.counts}${l.epoch >= 0.01 ? `, ${number(l.epoch, 3)} epochs` : ' seen'}`));
  }
  if (l.step_ms !== undefined) {
    const ms = run.curves?.mean.step_ms?.y.at(-1) ?? l.step_ms, mfu = run.curves?.mean.mfu?.y.at(-1) ?? l.mfu;
    facts.push(fact('step time', number(ms, 3), 'ms', mfu !== undefined ? `${number(mfu * 100, 3)} % of the peak` : l.data_wait_ms !== undefined ? `waits ${number(l.data_wait_ms, 2)} ms for data` : `${duration(run.time)} in steps`));
  }
  const bad = l.skipped || 0, spikes = l.spikes || 0, out = bad + spikes;
  if (out) facts.push(fact('left out', whole(out), out === 1 ? 'update' : 'updates', [bad && `${whole(bad)} not finite`, spikes && `${whole(spikes)} beyond the usual`].filter((t) => t).join(', '), bad ? 'bad' : ''));
  into.replaceChildren(
    h('div', { class: 'head' }, h('h1', {}, run.label), h('span', { class: 'state' }, h('i', { class: `dot ${kind}` }), text), h('span', { class: 'path' }, run.dir)),
    run.steps ? h('div', { class: 'progress', role: 'progressbar', 'aria-valuenow': String(Math.round(share * 100)), 'aria-label': 'steps made' }, h('i', { style: { width: `${share * 100}%` } })) : '',
    h('div', { class: 'facts' }, facts));
}

// left is how long the steps that are left will take, at the pace of now.
function left(run, kind) {
  const ms = run.curves?.mean.step_ms?.y.at(-1) ?? run.last.step_ms;
  if (kind === 'live' && run.steps && ms) return `about ${duration((run.steps - run.step) * ms / 1000)} left`;
  return run.time ? `${duration(run.time)} in steps` : '';
}

function bestOf(run) {
  const raw = run.curves?.raw, y = rewarded(run) ? raw?.['eval_rollout.reward']?.y.map((v) => 0 - v) : raw?.eval_loss?.y;
  return y?.length ? Math.min(...y) : null;
}
