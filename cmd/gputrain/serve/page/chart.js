// One chart: curves of one or many runs over a common axis, a cross that all charts share, values where it stands, zoom by dragging.

import { bytes, css, duration, fit, h, number, short, whole } from './format.js';
import { nearest } from './data.js';

const pad = { left: 50, right: 10, top: 8, bottom: 20 };

export class Chart {
  // spec: key, title, unit, write, log, zero, dots. share: {range(), axis(), hover(x), zoom(from, to), cross}.
  constructor(spec, share) {
    Object.assign(this, { spec, share, lines: [], marks: [], log: false, chosen: false, drag: null });
    this.base = h('canvas', { 'aria-hidden': 'true' });
    this.over = h('canvas', { 'aria-hidden': 'true' });
    this.tip = h('div', { class: 'tip', hidden: true });
    this.pulse = h('div', { class: 'pulse', hidden: true });
    this.now = h('div', { class: 'now' });
    this.scale = h('button', { class: 'scale', title: 'linear or logarithmic', onclick: () => { this.log = !this.log; this.chosen = true; this.draw(); } }, 'lin');
    this.plot = h('div', { class: 'plot', tabindex: '0', role: 'img', 'aria-label': spec.title }, this.base, this.over, this.pulse, this.tip);
    this.element = h('figure', { class: 'card chart', 'data-series': spec.key },
      h('figcaption', {}, h('h3', {}, spec.title), h('span', { class: 'unit' }, spec.unit || ''), this.now, this.scale), this.plot);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  listen() {
    const p = this.plot, x = (e) => this.toValue(e.clientX - p.getBoundingClientRect().left);
    p.addEventListener('pointermove', (e) => {
      if (this.drag) this.drag.to = x(e);
      this.inside = true;
      this.share.hover(x(e));
    });
    p.addEventListener('pointerleave', () => { this.inside = false; if (!this.drag) this.share.hover(null); });
    p.addEventListener('pointerdown', (e) => {
      if (e.button !== 0 || e.pointerType === 'touch') return;
      p.setPointerCapture(e.pointerId);
      this.drag = { from: x(e), to: x(e) };
    });
    p.addEventListener('pointerup', () => {
      const d = this.drag, [low, high] = this.share.range();
      this.drag = null;
      if (d && Math.abs(d.to - d.from) > (high - low) * 4 / this.width) this.share.zoom(Math.max(low, Math.min(d.from, d.to)), Math.min(high, Math.max(d.from, d.to)));
      else this.overlay();
    });
    p.addEventListener('dblclick', () => this.share.zoom(null, null));
    p.addEventListener('keydown', (e) => {
      const [low, high] = this.share.range(), way = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
      if (!way) return;
      e.preventDefault();
      this.inside = true;
      this.share.hover(Math.min(high, Math.max(low, (this.share.cross ?? high) + way * (high - low) / 100)));
    });
    p.addEventListener('blur', () => { this.inside = false; this.share.hover(null); });
  }

  // set takes lines {name, own, colour, raw, mean, dots, focus, live}, marks {x, text, colour} and whether lines are yet to come, and draws.
  set(lines, marks, loading) {
    Object.assign(this, { lines, marks, loading });
    this.draw();
  }

  toPixel(x) { const [a, b] = this.share.range(); return pad.left + (x - a) / (b - a || 1) * (this.width - pad.left - pad.right); }
  toValue(px) { const [a, b] = this.share.range(); return a + (px - pad.left) / (this.width - pad.left - pad.right) * (b - a); }
  toHeight(y) {
    const [a, b] = this.extent, v = this.log ? Math.log10(y) : y;
    return pad.top + (1 - (v - a) / (b - a || 1)) * (this.height - pad.top - pad.bottom);
  }

  // measure finds what values are in view.
  measure() {
    const [from, to] = this.share.range();
    let low = Infinity, high = -Infinity, positive = Infinity;
    for (const l of this.lines) {
      for (let i = 0; i < l.raw.x.length; i++) {
        const x = l.raw.x[i], y = l.raw.y[i];
        if (x < from || x > to) continue;
        if (y < low) low = y;
        if (y > high) high = y;
        if (y > 0 && y < positive) positive = y;
      }
    }
    if (!(low <= high)) { this.extent = null; return; }
    if (this.spec.usual) high = Math.max(low, Math.min(high, this.usual(from, to)));
    const can = positive < Infinity && high > 0;
    if (!this.chosen) this.log = can && low > 0 && (this.spec.log ? high / low > 8 : !this.spec.linear && !this.spec.usual && high / low > 1e4);
    if (this.log && !can) this.log = false;
    if (this.log) [low, high] = [Math.log10(low > 0 ? low : positive), Math.log10(high)];
    else if (this.spec.zero && low > 0) low = 0;
    const one = high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high)); // but for rounding
    const space = one ? (this.log ? 0.1 : Math.abs(high) * 0.1 || 1) : (high - low) * 0.06;
    this.extent = [this.spec.zero && low === 0 ? 0 : low - space, high + space];
  }

  // usual is twice what one of twenty values in view is above: a single step that took long, or seemed to take no time, would flatten all others.
  usual(from, to) {
    return 2 * Math.max(...this.lines.map((l) => {
      const values = l.raw.y.filter((_, i) => l.raw.x[i] >= from && l.raw.x[i] <= to).sort((a, b) => a - b);
      return values.length ? values[Math.floor(values.length * 0.95)] : -Infinity;
    }));
  }

  draw() {
    let c;
    [c, this.width, this.height] = fit(this.base);
    if (!this.width) return;
    this.measure();
    this.plot.dataset.range = this.share.range().join();
    this.plot.dataset.marks = this.marks.map((m) => m.x).join();
    this.scale.textContent = this.log ? 'log' : 'lin';
    this.pulse.hidden = true;
    c.font = `11px ${css('--sans')}`;
    c.textAlign = 'left'; // not as the last drawing left it
    if (!this.extent) {
      c.fillStyle = css('--faint');
      this.plot.dataset.empty = this.loading ? 'loading …' : 'nothing measured here';
      c.fillText(this.plot.dataset.empty, pad.left, this.height / 2);
      this.overlay();
      return;
    }
    delete this.plot.dataset.empty;
    this.grid(c);
    c.save();
    c.beginPath();
    c.rect(pad.left, 0, this.width - pad.left - pad.right, this.height - pad.bottom + 1);
    c.clip();
    for (const m of this.marks) this.mark(c, m);
    for (const l of [...this.lines].sort((a, b) => (a.focus ? 1 : 0) - (b.focus ? 1 : 0))) this.line(c, l);
    c.restore();
    this.overlay();
  }

  grid(c) {
    const bottom = this.height - pad.bottom;
    c.strokeStyle = css('--grid');
    c.fillStyle = css('--faint');
    c.lineWidth = 1;
    c.textAlign = 'right';
    c.textBaseline = 'middle';
    for (const [v, text] of ticks(this.extent, Math.max(2, this.height / 52), this.log, this.spec)) {
      const y = Math.round(this.toHeight(v)) + 0.5;
      c.beginPath(); c.moveTo(pad.left, y); c.lineTo(this.width - pad.right, y); c.stroke();
      c.fillText(text, pad.left - 8, y);
    }
    c.textAlign = 'center';
    c.textBaseline = 'alphabetic';
    for (const [v, text] of axisTicks(this.share.range(), this.share.axis(), Math.max(2, (this.width - 60) / 78))) {
      const x = this.toPixel(v);
      if (x > this.width - 18) continue;
      c.fillText(text, x, bottom + 15);
    }
  }

  mark(c, m) {
    const x = Math.round(this.toPixel(m.x)) + 0.5;
    c.save();
    c.strokeStyle = m.colour;
    c.setLineDash([3, 3]);
    c.beginPath(); c.moveTo(x, pad.top); c.lineTo(x, this.height - pad.bottom); c.stroke();
    if (this.height > 200) { // beside the line, where there is room for all of it
      const room = x + 5 + c.measureText(m.text).width <= this.width - pad.right;
      c.textAlign = room ? 'left' : 'right';
      c.fillStyle = m.colour;
      c.fillText(m.text, room ? x + 5 : x - 5, pad.top + 9);
    }
    c.restore();
  }

  line(c, l) {
    const smooth = l.mean && !l.dots, few = l.raw.x.length <= 60;
    c.lineJoin = 'round';
    const strong = smooth ? l.mean : l.raw;
    if (l.fill && strong.x.length > 1) {
      this.path(c, strong);
      c.lineTo(this.toPixel(strong.x.at(-1)), this.height); c.lineTo(this.toPixel(strong.x[0]), this.height);
      const g = c.createLinearGradient(0, pad.top, 0, this.height - pad.bottom);
      g.addColorStop(0, `${l.colour}2b`); g.addColorStop(1, `${l.colour}00`);
      c.fillStyle = g;
      c.fill();
    }
    if (smooth) {
      this.path(c, l.raw);
      c.strokeStyle = l.colour; c.globalAlpha = l.many ? 0.1 : 0.3; c.lineWidth = 1;
      c.stroke();
    }
    this.path(c, strong);
    c.strokeStyle = l.colour; c.globalAlpha = l.many && !l.focus ? 0.85 : 1; c.lineWidth = l.focus ? 2.1 : 1.5;
    c.stroke();
    c.globalAlpha = 1;
    c.fillStyle = l.colour;
    if (l.dots && few) {
      for (let i = 0; i < l.raw.x.length; i++) { c.beginPath(); c.arc(this.toPixel(l.raw.x[i]), this.toHeight(l.raw.y[i]), 3, 0, 7); c.fill(); }
    }
    c.fillStyle = css('--bad');
    for (const x of l.raw.bad) { const p = this.toPixel(x); c.beginPath(); c.moveTo(p - 4, pad.top - 4); c.lineTo(p + 4, pad.top - 4); c.lineTo(p, pad.top + 4); c.fill(); }
    if (l.live && l.focus && strong.x.length && this.share.range()[1] >= strong.x.at(-1)) {
      this.pulse.hidden = false;
      this.pulse.style.color = l.colour;
      this.pulse.style.left = `${this.toPixel(strong.x.at(-1))}px`;
      this.pulse.style.top = `${this.toHeight(strong.y.at(-1))}px`;
    }
  }

  path(c, s) {
    c.beginPath();
    for (let i = 0; i < s.x.length; i++) {
      const y = this.log && s.y[i] <= 0 ? this.height : this.toHeight(s.y[i]);
      if (i) c.lineTo(this.toPixel(s.x[i]), y); else c.moveTo(this.toPixel(s.x[i]), y);
    }
  }

  // overlay draws the cross and the values under it.
  overlay() {
    const [c] = fit(this.over), x = this.share.cross;
    const found = this.extent ? this.lines.map((l) => this.value(l, x)).filter((v) => v) : [];
    this.values(found, x);
    if (!this.extent) return;
    if (this.drag) {
      const a = this.toPixel(this.drag.from), b = this.toPixel(this.drag.to);
      c.fillStyle = `${css('--accent')}26`;
      c.fillRect(Math.min(a, b), pad.top, Math.abs(a - b), this.height - pad.top - pad.bottom);
    }
    this.tip.hidden = true;
    if (x === null || x === undefined) return;
    const px = this.toPixel(x);
    if (px < pad.left || px > this.width - pad.right) return;
    c.strokeStyle = css('--faint');
    c.beginPath(); c.moveTo(Math.round(px) + 0.5, pad.top); c.lineTo(Math.round(px) + 0.5, this.height - pad.bottom); c.stroke();
    for (const v of found) {
      c.fillStyle = css('--card'); c.strokeStyle = v.colour; c.lineWidth = 2;
      c.beginPath(); c.arc(this.toPixel(v.x), this.toHeight(v.y), 3.5, 0, 7); c.fill(); c.stroke();
    }
    if (this.inside && found.length) this.show(found, x, px);
  }

  value(l, x) {
    const s = l.mean && !l.dots ? l.mean : l.raw;
    const i = x === null || x === undefined ? s.x.length - 1 : nearest(s.x, x);
    if (i < 0 || (x !== null && x !== undefined && (x < s.x[0] || x > s.x.at(-1)) && this.lines.length > 2)) return null;
    const k = nearest(l.raw.x, s.x[i]);
    return { name: l.name, colour: l.colour, x: s.x[i], y: s.y[i], raw: s === l.raw ? null : l.raw.y[k], focus: l.focus, own: l.own };
  }

  values(found, x) {
    const write = this.spec.write, rows = found.length <= 2 ? found : found.filter((v) => v.focus);
    this.now.replaceChildren(...rows.map((v) => h('span', {}, found.length > 1 ? h('i', { style: { background: v.colour } }) : null, h('b', {}, write(v.y)),
      v.own ? h('em', {}, ` ${v.name}`) : null)));
    this.element.dataset.cross = x ?? '';
  }

  show(found, x, px) {
    const write = this.spec.write, rows = [...found].sort((a, b) => b.y - a.y).slice(0, 14);
    this.tip.replaceChildren(h('div', { class: 'at' }, axisText(found.length === 1 ? found[0].x : x, this.share.axis())),
      ...rows.map((v) => h('div', { class: 'row' }, h('i', { style: { background: v.colour } }), h('span', { class: 'label' }, v.name),
        h('span', {}, h('b', {}, write(v.y)), v.raw === null ? null : h('em', {}, write(v.raw))))));
    this.tip.hidden = false;
    const w = this.tip.offsetWidth;
    this.tip.style.left = `${px + 14 + w > this.width ? Math.max(0, px - 14 - w) : px + 14}px`;
  }
}

function step(span, count) {
  const raw = span / count, size = 10 ** Math.floor(Math.log10(raw)), f = raw / size;
  return (f > 5 ? 10 : f > 2 ? 5 : f > 1 ? 2 : 1) * size;
}

function ticks([low, high], count, log, { tick, binary }) {
  const out = [];
  if (binary && !log) {
    const unit = 1024 ** Math.floor(Math.log2(Math.max(1, high)) / 10), by = step((high - low) / unit, count) * unit;
    for (let v = Math.ceil(low / by) * by; v <= high; v += by) out.push([v, bytes(v).replace(/ (.)iB/, '$1')]); // there is little room
    return out;
  }
  if (log && high - low > 0.9) {
    const by = Math.max(1, Math.ceil((high - low) / count));
    for (let e = Math.ceil(low); e <= high; e += by) out.push([10 ** e, e >= -3 && e < 4 ? String(+(10 ** e).toPrecision(1)) : `1e${e}`]);
    if (out.length > 1) return out;
    return [1, 2, 5].flatMap((m) => [Math.floor(low), Math.ceil(low)].map((e) => m * 10 ** e)).filter((v) => Math.log10(v) >= low && Math.log10(v) <= high).map((v) => [v, short(v)]);
  }
  if (log) [low, high] = [10 ** low, 10 ** high];
  const by = step(high - low, count), places = Math.max(0, -Math.floor(Math.log10(by) + 1e-9));
  for (let v = Math.ceil(low / by) * by; v <= high; v += by) {
    out.push([v, Math.abs(v) < by / 1e6 ? '0' : tick ? tick(v) : Math.abs(v) >= 1e4 ? short(v) : places > 4 ? v.toExponential(1).replace('e+', 'e') : v.toFixed(places)]);
  }
  return out;
}

export const axisText = (v, axis) => axis === 'time' ? duration(v) : axis === 'tokens' ? `${short(v)} tokens` : `step ${whole(v)}`;

function axisTicks([low, high], axis, count) {
  let by = step(high - low || 1, count);
  if (axis === 'time') by = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800].find((s) => (high - low) / s <= count) || by;
  else by = Math.max(1, by);
  const out = [];
  for (let v = Math.ceil(low / by) * by; v <= high; v += by) out.push([v, axis === 'time' ? duration(v) || '0' : axis === 'tokens' ? short(v) : v >= 1e5 ? short(v) : number(v, 6)]);
  return out;
}
