// The use of stages over steps: a row for each, filled as far as the stage computed; below them what was left over.

import { css, fit, h, percent } from './format.js';
import { nearest, view } from './data.js';

export const ofStages = (name) => name.startsWith('stage_busy.') || name === 'bubble' || name === 'transfer';

export class Stages {
  constructor(into, share) {
    this.share = share;
    this.into = into;
    this.rows = h('div', { class: 'stage-rows' });
    into.append(h('header', {}, h('h2', {}, 'Stages'), h('span', { class: 'note' }, 'share of each step in which a stage computed')), this.rows);
    this.list = [];
    new ResizeObserver(() => this.draw()).observe(into);
  }

  set(run) {
    this.run = run;
    const names = (run?.series || []).filter((n) => n.startsWith('stage_busy.'));
    this.into.hidden = !names.length;
    if (!names.length) return;
    const all = [...names.map((n) => [n, `stage ${n.split('.')[1]}`, 'var']), ['bubble', 'idle', 'rest'], ['transfer', 'transfers', 'rest']].filter(([n]) => run.series.includes(n));
    if (this.list.map((r) => r.name).join() !== all.map(([n]) => n).join()) {
      this.list = all.map(([name, label, kind]) => {
        const canvas = h('canvas', { 'aria-hidden': 'true' }), value = h('b', {});
        return { name, kind, canvas, value, row: h('div', { class: `stage ${kind}`, 'data-series': name }, h('span', { class: 'label' }, label), canvas, value) };
      });
      this.rows.replaceChildren(...this.list.map((r) => r.row));
    }
    this.draw();
  }

  draw() {
    const curves = this.run?.curves;
    if (!curves || curves.x !== view.x || this.into.hidden) return;
    const [from, to] = this.share.range(), cross = this.share.cross;
    for (const r of this.list) {
      const s = (view.span > 1 && curves.mean[r.name]) || curves.raw[r.name], [c, w, hgt] = fit(r.canvas);
      if (!s || !s.x.length) continue;
      const at = cross === null ? s.x.length - 1 : nearest(s.x, cross);
      r.value.textContent = percent(s.y[at]);
      const px = (x) => (x - from) / (to - from || 1) * w, tone = r.kind === 'rest' ? css('--faint') : css('--accent');
      const draw = (p, alpha) => {
        c.beginPath();
        c.moveTo(px(p.x[0]), hgt);
        for (let i = 0; i < p.x.length; i++) c.lineTo(px(p.x[i]), hgt * (1 - Math.min(1, p.y[i])));
        c.lineTo(px(p.x.at(-1)), hgt);
        c.globalAlpha = alpha; c.fillStyle = tone; c.fill();
        c.globalAlpha = 1;
      };
      if (s !== curves.raw[r.name] && curves.raw[r.name]) draw(curves.raw[r.name], 0.22);
      draw(s, r.kind === 'rest' ? 0.45 : 0.72);
      if (cross !== null) { c.fillStyle = css('--ink'); c.globalAlpha = 0.5; c.fillRect(px(cross), 0, 1, hgt); c.globalAlpha = 1; }
    }
  }
}
