// What the model drew, and what it got for it, generation by generation.

import { h, number, whole } from './format.js';
import { Scrub, visible } from './scrub.js';

export class Rollouts extends Scrub {
  constructor(into) {
    super(into, 'rollouts', 'Completions', 'prompt');
    this.prompt = h('pre', { class: 'sample prompt', tabindex: '0' });
    this.drawn = h('div');
    into.append(this.prompt, this.drawn);
  }

  write(l) {
    this.step.textContent = `before step ${whole(l.step)}, row ${whole(l.row)}`;
    this.prompt.replaceChildren(visible(l.prompt));
    const got = (c) => [...Object.entries(c.rewards || {}).map(([name, v]) => `${name} ${v === null ? 'nothing' : number(v)}`), `advantage ${number(c.advantage)}`,
      `${whole(c.tokens)} tokens${c.truncated ? ', cut' : ''}`].join(' · ');
    this.drawn.replaceChildren(...(l.completions || []).flatMap((c) => [h('div', { class: 'facts-line' }, got(c)), h('pre', { class: 'sample', tabindex: '0' }, visible(c.text))]));
  }
}
