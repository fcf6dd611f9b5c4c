// Numbers, names and colours as people read them.

const palette = ['#4f7df9', '#f2711c', '#10a37a', '#e0356f', '#8b5cf6', '#d9a406', '#06a5c4', '#b0562c', '#7a8699', '#d04fd8'];

export const colour = (i) => i < palette.length ? palette[i] : `hsl(${(i * 137.508 + 40) % 360} 62% 55%)`;

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// number writes four or five digits that matter.
export function number(v, digits = 4) {
  if (v === null || v === undefined) return 'not finite';
  const a = Math.abs(v);
  if (a === 0) return '0';
  if (a >= 1e15 || a < 1e-4) return v.toExponential(Math.min(2, digits - 1)).replace('e+', 'e').replace(/\.?0+e/, 'e');
  if (a >= 1e4) return Math.round(v).toLocaleString('en-US');
  return String(+v.toPrecision(digits));
}

// fixed writes three places behind the point, whatever stands before it.
export const fixed = (v, places = 3) => v === null || v === undefined ? 'not finite' : Math.abs(v) >= 1e4 ? number(v) : v.toFixed(places);

export const whole = (v) => Math.round(v).toLocaleString('en-US');

// short writes 1.2k, 35M.
export function short(v) {
  for (const [size, sign] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) {
    if (Math.abs(v) >= size) return `${+(v / size).toPrecision(3)}${sign}`;
  }
  return number(v, 3);
}

export function bytes(v) {
  for (const [size, sign] of [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']]) {
    if (Math.abs(v) >= size) return `${+(v / size).toPrecision(3)} ${sign}`;
  }
  return `${number(v)} B`;
}

// duration writes two units: 2h 5m, 3m 20s, 4.5s, 120ms.
export function duration(seconds) {
  if (!(seconds >= 0)) return '';
  if (seconds < 1) return `${number(seconds * 1000, 3)} ms`;
  if (seconds < 10) return `${+seconds.toFixed(1)} s`;
  const s = Math.round(seconds);
  for (const [size, sign, lower, lowerSign] of [[86400, 'd', 3600, 'h'], [3600, 'h', 60, 'm'], [60, 'm', 1, 's']]) {
    if (s >= size) {
      const rest = Math.floor((s % size) / lower);
      return `${Math.floor(s / size)}${sign}${rest ? ` ${rest}${lowerSign}` : ''}`;
    }
  }
  return `${s} s`;
}

export const percent = (v) => v === null || v === undefined ? '' : `${Math.round(v * 100)} %`;

const share = (v) => v === null || v === undefined ? 'not finite' : `${number(v * 100, 3)} %`;

// usual: what few points are above is cut off. beside: curves that are drawn in the same chart where one run is shown, by what they are called
// there, own being the name of its own; what is the same as it is left out.
const known = {
  loss: { title: 'Loss', unit: 'nats a token', write: fixed, rank: 0, wide: true, own: 'training', beside: { eval_loss: 'validation' } },
  eval_loss: { title: 'Validation loss', unit: 'nats a token', write: fixed, rank: 1, dots: true, raw: true },
  'rollout.reward': { title: 'Reward', unit: 'mean of a generation', rank: 0.5, dots: true, raw: true, own: 'training', beside: { 'eval_rollout.reward': 'validation' } },
  'rollout.mean_length': { title: 'Length', unit: 'tokens a completion', rank: 1.5, zero: true, raw: true },
  learning_rate: { title: 'Learning rate', unit: '', rank: 2, raw: true, linear: true },
  grad_norm: { title: 'Gradient norm', unit: 'before clipping', rank: 3, log: true, own: 'norm', beside: { grad_norm_clipped: 'clipped' } },
  tokens_per_second: { title: 'Throughput', unit: 'tokens a second', write: short, rank: 4, zero: true, usual: true, own: 'in the loss', beside: { padded_tokens_per_second: 'with padding' } },
  step_ms: { title: 'Step time', unit: 'ms', rank: 5, zero: true, usual: true, own: 'step', beside: { device_ms: 'device', data_wait_ms: 'wait for data' } },
  mfu: { title: 'Use of the peak', unit: 'mfu', write: share, tick: share, rank: 6, zero: true, usual: true },
  device_bytes: { title: 'Memory', unit: '', write: bytes, binary: true, rank: 50, more: true, raw: true, zero: true, own: 'devices', beside: { host_bytes: 'process' } },
  host_bytes: { title: 'Memory of the process', unit: '', write: bytes, binary: true, rank: 51, more: true, raw: true, zero: true },
  grad_norm_clipped: { title: 'Gradient norm, clipped', unit: '', rank: 52, more: true },
  update_norm: { title: 'Norm of the update', unit: '', rank: 53, more: true, log: true },
  padded_tokens_per_second: { title: 'Throughput with padding', unit: 'tokens a second', write: short, rank: 54, more: true, zero: true, usual: true },
  device_ms: { title: 'Time of the device', unit: 'ms a step', rank: 55, more: true, zero: true, usual: true },
  data_wait_ms: { title: 'Wait for data', unit: 'ms a step', rank: 56, more: true, zero: true, usual: true },
};

// hidden are counts that only grow, which stand above the charts, and what is drawn elsewhere.
const hidden = new Set(['tokens', 'epoch', 'skipped', 'spikes', 'device_peak_bytes', 'eval_tokens', 'eval_ms', 'bubble', 'transfer']);

// rewarded says whether a run learns from completions that it draws.
export const rewarded = (run) => run?.counts === 'completions';

// about says how a series of a run is shown; null: not as a curve. A name that is not known says itself what it is: data_wait_ms is in ms.
export function about(name, run) {
  if (name === 'tokens_per_second' && run) return { key: name, ...known[name], unit: `${run.counts} a second` };
  if (name === 'loss' && run && run.counts !== 'tokens') return { key: name, ...known[name], unit: '', ...(rewarded(run) ? { beside: {} } : {}) };
  if (name === 'eval_loss' && rewarded(run)) return null; // a reward with the other sign
  if (known[name]) return { key: name, write: number, ...known[name] };
  if (hidden.has(name) || name.startsWith('stage_busy.')) return null;
  if (name.startsWith('watched.')) return { key: name, title: name.slice(8), unit: 'watched', write: number, rank: 60, more: true };
  const [figure, validated] = [name.replace(/^(eval_)?figures\./, ''), name.startsWith('eval_')];
  if (figure !== name) {
    const title = figure.replace(/_/g, ' ');
    return { key: name, title: title[0].toUpperCase() + title.slice(1), unit: validated ? 'validation' : '', write: number, rank: 7, dots: validated, raw: validated, own: 'training', beside: { [`eval_${name}`]: 'validation' } };
  }
  let unit = '', text = name, write = number;
  for (const [tail, meaning, how] of [['_per_second', 'a second', short], ['_ms', 'ms'], ['_seconds', 's'], ['_bytes', '', bytes]]) {
    if (name.endsWith(tail)) [text, unit, write] = [name.slice(0, -tail.length), meaning, how || number];
  }
  text = text.replace(/_/g, ' ');
  return { key: name, title: text[0].toUpperCase() + text.slice(1), unit, write, rank: 50, more: true, dots: name.startsWith('eval_'), raw: name.startsWith('eval_') };
}

// h makes an element: h('a', {class: 'x', onclick: f}, 'text', child).
export function h(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props)) {
    if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else if (k === 'style') for (const [p, s] of Object.entries(v)) e.style.setProperty(p, s);
    else if (v === true) e.setAttribute(k, '');
    else if (v !== false && v !== null && v !== undefined) e.setAttribute(k, v);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

// canvas makes a canvas as fine as the screen and returns its context, in CSS pixels.
export function fit(canvas) {
  const ratio = devicePixelRatio || 1, w = canvas.clientWidth, hgt = canvas.clientHeight;
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(hgt * ratio)) {
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(hgt * ratio);
  }
  const c = canvas.getContext('2d');
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, w, hgt);
  return [c, w, hgt];
}
