// What the model drew, and what it got for it: the newest generation, or any that the slider is moved to.

import { h, number, whole } from './format.js';
import { ask } from './data.js';

const visible = (t) => String(t ?? '').replace(/[\u0000-\u0008\u000b-\u001f\u007f\u0080-\u009f\u202a-\u202e\u2066-\u2069]/g, '\ufffd');

export class Rollouts {
  constructor(into) {
    Object.assign(this, { into, list: [], at: null, key: '' });
    this.slider = h('input', { type: 'range', min: '0', step: '1', 'aria-label': 'prompt', oninput: () => { this.at = +this.slider.value === this.list.length - 1 ? null : +this.slider.value; this.show(); } });
    this.step = h('span', { class: 'note' });
    this.prompt = h('pre', { class: 'sample prompt', tabindex: '0' });
    this.drawn = h('div');
    into.append(h('header', {}, h('h2', {}, 'Completions'), this.step, h('div', { class: 'scrub' }, this.slider)), this.prompt, this.drawn);
  }

  async set(run) {
    this.into.hidden = !run?.rollouts;
    const key = `${run?.id} ${run?.rollouts} ${run?.rewound}`;
    if (this.into.hidden || key === this.key) return;
    if (this.run !== run) this.at = null;
    Object.assign(this, { key, run });
    const list = await ask(`api/rollouts?run=${run.id}`).catch(() => []);
    if (key !== this.key) return;
    this.list = list;
    this.show();
  }

  show() {
    const n = this.list.length, l = this.list[Math.min(this.at ?? n - 1, n - 1)];
    if (!l) return;
    this.slider.max = n - 1;
    this.slider.value = this.at ?? n - 1;
    this.slider.parentElement.hidden = n < 2;
    this.step.textContent = `before step ${whole(l.step)}, row ${whole(l.row)}`;
    this.prompt.replaceChildren(visible(l.prompt));
    const got = (c) => [...Object.entries(c.rewards || {}).map(([name, v]) => `${name} ${v === null ? 'nothing' : number(v)}`), `advantage ${number(c.advantage)}`,
      `${whole(c.tokens)} tokens${c.truncated ? ', cut' : ''}`].join(' · ');
    this.drawn.replaceChildren(...(l.completions || []).flatMap((c) => [h('div', { class: 'facts-line' }, got(c)), h('pre', { class: 'sample', tabindex: '0' }, visible(c.text))]));
  }
}
