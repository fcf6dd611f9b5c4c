// The run file with the origin of every value, what differs between the runs shown, the checkpoints and the report.

import { h } from './format.js';
import { ask, runs } from './data.js';
import { drawReport } from './report.js';

const tabs = [['given', 'given values'], ['all', 'whole run file'], ['differ', 'differences'], ['report', 'report']];

export class Papers {
  constructor(into) {
    Object.assign(this, { into, tab: null, known: new Map(), drawn: '' });
    this.body = h('div', {});
    this.note = h('span', { class: 'note' });
    this.bar = h('div', { class: 'segmented push', role: 'group', 'aria-label': 'what to read' },
      tabs.map(([key, text]) => h('button', { 'data-tab': key, onclick: () => { this.tab = key; this.draw(); } }, text)));
    into.append(h('header', {}, h('h2', {}, 'Run file'), this.note, this.bar), this.body);
  }

  async set(run, shown) {
    Object.assign(this, { run, shown });
    const want = [run, ...(shown.length > 1 ? shown : [])].filter((r) => r);
    await Promise.all(want.map(async (r) => {
      const key = `${r.settings} ${r.report} ${r.rewound}`;
      if (this.known.get(r.id)?.key === key) return;
      this.known.set(r.id, { key, ...this.known.get(r.id)?.data && { data: this.known.get(r.id).data } });
      const data = await ask(`api/run?run=${r.id}`).catch(() => null);
      if (data) this.known.set(r.id, { key, data });
    }));
    this.draw();
  }

  draw() {
    const mine = this.run && runs.has(this.run.id) && this.known.get(this.run.id)?.data;
    this.into.hidden = !mine || (!mine.settings?.length && !mine.report);
    if (this.into.hidden) return;
    const tab = this.tab === 'report' && !mine.report || this.tab === 'differ' && this.shown.length < 2 || !this.tab ? (this.shown.length > 1 ? 'differ' : 'given') : this.tab;
    for (const b of this.bar.children) {
      b.setAttribute('aria-pressed', String(b.dataset.tab === tab));
      b.hidden = b.dataset.tab === 'report' && !mine.report || b.dataset.tab === 'differ' && this.shown.length < 2;
    }
    const n = mine.checkpoints.length;
    this.note.textContent = n ? `${n} checkpoint${n > 1 ? 's' : ''}, newest ${mine.checkpoints.at(-1)}` : 'no checkpoint yet';
    const all = this.shown.map((r) => [r.label, r.colour, this.known.get(r.id)?.data]).filter(([, , d]) => d);
    const key = JSON.stringify([tab, this.run.id, tab === 'differ' ? all : mine]);
    if (key === this.drawn) return; // what is selected stays selected
    this.drawn = key;
    if (tab === 'report') this.body.replaceChildren(drawReport(mine.report));
    else if (tab === 'differ') this.body.replaceChildren(differences(all));
    else this.body.replaceChildren(table(mine.settings.filter((s) => tab === 'all' || s.origin !== 'default')));
  }
}

const text = (value) => value === undefined || value === null ? '' : typeof value === 'string' ? value || '""' : Array.isArray(value) && value.every((v) => typeof v !== 'object') ? value.join(', ') : JSON.stringify(value);

function table(settings) {
  let section = null;
  const rows = settings.flatMap((s) => {
    const [head, ...rest] = s.key.split('.'), out = [];
    if (head !== section) { section = head; out.push(h('tr', { class: 'section' }, h('td', { colspan: '3' }, head))); }
    out.push(h('tr', { class: s.origin === 'default' ? '' : 'given' }, h('td', { class: 'key' }, rest.join('.') || head), h('td', { class: 'value' }, text(s.value)), h('td', { class: 'origin' }, s.origin)));
    return out;
  });
  return h('div', { class: 'table' }, rows.length ? h('table', {}, h('tbody', {}, rows)) : h('p', { class: 'note' }, 'Every value is a default.'));
}

function differences(all) {
  const keys = new Map(), of = all.map(([, , d]) => new Map(d.settings.map((s) => [s.key, s.value])));
  of.forEach((m) => m.forEach((_, k) => keys.set(k, true)));
  const differ = [...keys.keys()].filter((k) => new Set(of.map((m) => JSON.stringify(m.get(k)))).size > 1);
  if (!differ.length) return h('p', { class: 'note' }, 'The runs shown have the same settings.');
  return h('div', { class: 'table' }, h('table', {},
    h('thead', {}, h('tr', {}, h('th', {}, 'run'), differ.map((k) => h('th', {}, k)))),
    h('tbody', {}, all.map(([label, colour], i) => h('tr', {}, h('td', { class: 'key', style: { color: colour } }, label), differ.map((k) => h('td', { class: 'value' }, text(of[i].get(k)))))))));
}
