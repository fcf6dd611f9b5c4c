// What the model wrote, step by step. Beside it stands what the model wrote to the same prompt before training, where it was trained before.

import { h, whole } from './format.js';
import { Scrub, visible } from './scrub.js';

export class Samples extends Scrub {
  constructor(into) {
    super(into, 'samples', 'Samples', 'sample');
    this.text = h('pre', { class: 'sample', tabindex: '0' });
    this.before = h('pre', { class: 'sample before', tabindex: '0' });
    this.sides = h('div', { class: 'sides' });
    this.facts = h('div', { class: 'facts-line' });
    into.append(this.sides, this.facts);
  }

  write(s) {
    this.step.textContent = `step ${whole(s.step)}`;
    const fill = (into, of) => into.replaceChildren(h('span', { class: 'prompt' }, visible(of.prompt)), visible(of.text));
    const before = s.step > 0 && this.list.find((first) => first.step === 0 && first.prompt === s.prompt);
    fill(this.text, s);
    if (before) fill(this.before, before);
    const side = (name, text) => h('div', {}, h('div', { class: 'side-name' }, name), text);
    this.sides.replaceChildren(...before ? [side('before training', this.before), side(`step ${whole(s.step)}`, this.text)] : [this.text]);
    this.facts.textContent = [`temperature ${s.temperature}`, s.top_k ? `top ${s.top_k}` : null, s.top_p ? `top p ${s.top_p}` : null, s.min_p ? `min p ${s.min_p}` : null,
      s.repetition_penalty ? `repetition penalty ${s.repetition_penalty}` : null, `seed ${s.seed}`].filter((t) => t).join(' · ');
  }
}
