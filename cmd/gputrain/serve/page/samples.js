// What the model wrote, step by step: the newest, or any that the slider is moved to. Beside it stands what the model wrote to the same prompt before
// training, where it was trained before.

import { h, whole } from './format.js';
import { ask } from './data.js';

export class Samples {
  constructor(into) {
    Object.assign(this, { into, list: [], at: null, key: '' });
    this.slider = h('input', { type: 'range', min: '0', step: '1', 'aria-label': 'sample', oninput: () => { this.at = +this.slider.value === this.list.length - 1 ? null : +this.slider.value; this.show(); } });
    this.step = h('span', { class: 'note' });
    this.text = h('pre', { class: 'sample', tabindex: '0' });
    this.before = h('pre', { class: 'sample before', tabindex: '0' });
    this.sides = h('div', { class: 'sides' });
    this.facts = h('div', { class: 'facts-line' });
    into.append(h('header', {}, h('h2', {}, 'Samples'), this.step, h('div', { class: 'scrub' }, this.slider)), this.sides, this.facts);
  }

  async set(run) {
    this.into.hidden = !run?.samples;
    const key = `${run?.id} ${run?.samples} ${run?.rewound}`;
    if (this.into.hidden || key === this.key) return;
    if (this.run !== run) this.at = null;
    Object.assign(this, { key, run });
    const list = await ask(`api/samples?run=${run.id}`).catch(() => []);
    if (key !== this.key) return;
    this.list = list;
    this.show();
  }

  show() {
    const n = this.list.length, s = this.list[Math.min(this.at ?? n - 1, n - 1)];
    if (!s) return;
    this.slider.max = n - 1;
    this.slider.value = this.at ?? n - 1;
    this.slider.parentElement.hidden = n < 2;
    this.step.textContent = `step ${whole(s.step)}`;
    const visible = (t) => String(t ?? '').replace(/[\u0000-\u0008\u000b-\u001f\u007f\u0080-\u009f\u202a-\u202e\u2066-\u2069]/g, '\ufffd');
    const write = (into, of) => into.replaceChildren(h('span', { class: 'prompt' }, visible(of.prompt)), visible(of.text));
    const before = s.step > 0 && this.list.find((first) => first.step === 0 && first.prompt === s.prompt);
    write(this.text, s);
    if (before) write(this.before, before);
    const side = (name, text) => h('div', {}, h('div', { class: 'side-name' }, name), text);
    this.sides.replaceChildren(...before ? [side('before training', this.before), side(`step ${whole(s.step)}`, this.text)] : [this.text]);
    this.facts.textContent = [`temperature ${s.temperature}`, s.top_k ? `top ${s.top_k}` : null, s.top_p ? `top p ${s.top_p}` : null, s.min_p ? `min p ${s.min_p}` : null,
      s.repetition_penalty ? `repetition penalty ${s.repetition_penalty}` : null, `seed ${s.seed}`].filter((t) => t).join(' · ');
  }
}
