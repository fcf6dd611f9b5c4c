// Histograms of parameters and gradients over steps, oldest at the back.

import { css, fit, h, number, whole } from './format.js';
import { ask } from './data.js';

export class Histograms {
  constructor(into) {
    Object.assign(this, { into, names: [], list: [], key: '' });
    this.pick = h('select', { class: 'picker', 'aria-label': 'tensor', onchange: () => { this.chosen = this.pick.value; this.load(); } });
    this.note = h('span', { class: 'note' });
    this.canvas = h('canvas', { role: 'img', 'aria-label': 'histograms over steps' });
    this.facts = h('dl', {});
    into.append(h('header', {}, h('h2', {}, 'Histograms'), this.note, h('span', { class: 'push' }, this.pick)), h('div', { class: 'ridge' }, this.canvas, this.facts));
    new ResizeObserver(() => this.draw()).observe(into);
  }

  async set(run) {
    this.into.hidden = !run?.histograms;
    const key = `${run?.id} ${run?.histograms} ${run?.rewound}`;
    if (this.into.hidden) return;
    if (key === this.key) { this.draw(); return; }
    Object.assign(this, { key, run });
    const names = await ask(`api/histograms?run=${run.id}`).catch(() => []);
    if (names.join() !== this.names.join()) {
      this.names = names;
      this.pick.replaceChildren(...names.map((n) => h('option', { value: n }, n)));
    }
    if (!names.includes(this.chosen)) this.chosen = names[0];
    this.pick.value = this.chosen;
    await this.load();
  }

  async load() {
    const want = this.chosen, run = this.run;
    if (!want) return;
    const list = await ask(`api/histograms?run=${run.id}&name=${encodeURIComponent(want)}`).catch(() => []);
    if (want !== this.chosen || run !== this.run) return;
    this.list = list.filter((l) => Array.isArray(l.counts) && Number.isFinite(l.min) && Number.isFinite(l.max));
    this.draw();
  }

  draw() {
    const n = this.list.length;
    if (this.into.hidden || !n) return;
    const [c, w, hgt] = fit(this.canvas);
    const low = Math.min(...this.list.map((l) => l.min)), high = Math.max(...this.list.map((l) => l.max));
    const top = 84, bottom = hgt - 24, left = 6, right = w - 54, rise = 72;
    const px = (v) => left + (v - low) / (high - low || 1) * (right - left);
    c.font = `11px ${css('--sans')}`;
    this.list.forEach((l, k) => {
      const base = n > 1 ? top + (bottom - top) * k / (n - 1) : bottom, t = n > 1 ? k / (n - 1) : 1;
      const hue = 255 + 85 * t, size = (l.max - l.min) / l.counts.length, peak = Math.max(1, ...l.counts);
      c.beginPath();
      c.moveTo(px(l.min), base);
      l.counts.forEach((count, i) => c.lineTo(px(l.min + (i + 0.5) * size), base - count / peak * rise));
      c.lineTo(px(l.max), base);
      c.fillStyle = `hsl(${hue} 70% 58% / ${0.22 + 0.5 * t})`;
      c.fill();
      c.strokeStyle = k === n - 1 ? css('--ink') : css('--card');
      c.lineWidth = k === n - 1 ? 1.4 : 1;
      c.stroke();
      if (k === 0 || k === n - 1 || k === n >> 1) { c.fillStyle = css('--faint'); c.textAlign = 'left'; c.fillText(whole(l.step), right + 8, base + 3); }
    });
    c.fillStyle = css('--faint');
    [[low, 'left'], [(low + high) / 2, 'center'], [high, 'right']].forEach(([v, align]) => { c.textAlign = align; c.fillText(number(v, 3), px(v), hgt - 6); });
    const last = this.list.at(-1);
    this.note.textContent = `${n} of steps ${whole(this.list[0].step)} to ${whole(last.step)}`;
    this.facts.replaceChildren(...[['step', whole(last.step)], ['least', number(last.min)], ['mean', number(last.mean)], ['greatest', number(last.max)], ['deviation', number(last.std)], ['values', whole(last.elements ?? last.counts.reduce((a, b) => a + b, 0))], ...(last.nonfinite ? [['not finite', whole(last.nonfinite)]] : [])]
      .flatMap(([k, v]) => [h('dt', {}, k), h('dd', {}, v)]));
  }
}
