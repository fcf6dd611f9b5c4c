// A list of what a run has written, of which one is shown: the newest, or any that the slider is moved to.

import { h } from './format.js';
import { ask } from './data.js';

// visible is a text of files with nothing in it that is not seen.
export const visible = (t) => String(t ?? '').replace(/[\u0000-\u0008\u000b-\u001f\u007f\u0080-\u009f\u202a-\u202e\u2066-\u2069]/g, '\ufffd');

export class Scrub {
  // of is the name of the list, as a run counts it and the server gives it.
  constructor(into, of, title, label) {
    Object.assign(this, { into, of, list: [], at: null, key: '' });
    this.slider = h('input', { type: 'range', min: '0', step: '1', 'aria-label': label, oninput: () => { this.at = +this.slider.value === this.list.length - 1 ? null : +this.slider.value; this.show(); } });
    this.step = h('span', { class: 'note' });
    into.append(h('header', {}, h('h2', {}, title), this.step, h('div', { class: 'scrub' }, this.slider)));
  }

  async set(run) {
    this.into.hidden = !run?.[this.of];
    const key = `${run?.id} ${run?.[this.of]} ${run?.rewound}`;
    if (this.into.hidden || key === this.key) return;
    if (this.run !== run) this.at = null;
    Object.assign(this, { key, run });
    const list = await ask(`api/${this.of}?run=${run.id}`).catch(() => []);
    if (key !== this.key) return;
    this.list = list;
    this.show();
  }

  show() {
    const n = this.list.length, one = this.list[Math.min(this.at ?? n - 1, n - 1)];
    if (!one) return;
    this.slider.max = n - 1;
    this.slider.value = this.at ?? n - 1;
    this.slider.parentElement.hidden = n < 2;
    this.write(one);
  }
}
