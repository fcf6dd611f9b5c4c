// A report in as much of Markdown as reports have: headings, tables, lists, code. All of it is put in as text.

import { h } from './format.js';

export function drawReport(source) {
  const out = h('div', { class: 'report' }), lines = source.split('\n');
  const starts = /^(#{1,3} |\||```| {4}|!\[|- )/;
  for (let i = 0; i < lines.length;) {
    const line = lines[i];
    if (!line.trim()) { i++; continue; }
    let found;
    if ((found = line.match(/^(#{1,3}) (.*)/))) {
      out.append(h(`h${found[1].length}`, {}, found[2]));
      i++;
    } else if (line.startsWith('```')) {
      const from = ++i;
      while (i < lines.length && !lines[i].startsWith('```')) i++;
      out.append(h('pre', {}, lines.slice(from, i++).join('\n')));
    } else if (line.startsWith('    ')) {
      const from = i;
      while (i < lines.length && (lines[i].startsWith('    ') || !lines[i].trim() && lines[i + 1]?.startsWith('    '))) i++;
      out.append(h('pre', {}, lines.slice(from, i).map((l) => l.slice(4)).join('\n')));
    } else if (line.startsWith('|')) {
      const rows = [];
      for (; i < lines.length && lines[i].startsWith('|'); i++) if (!/^\|[-:| ]+\|$/.test(lines[i]) || lines[i].replace(/[| ]/g, '') === '') rows.push(cells(lines[i]));
      const head = rows[0].some((c) => c) ? rows.shift() : (rows.shift(), null);
      out.append(h('table', {}, head ? h('tr', {}, head.map((c) => h('th', {}, c))) : null, rows.map((r) => h('tr', {}, r.map((c) => h('td', {}, c))))));
    } else if (line.startsWith('- ')) {
      const list = h('ul', {});
      for (; i < lines.length && lines[i].startsWith('- '); i++) list.append(h('li', {}, lines[i].slice(2)));
      out.append(list);
    } else if (line.startsWith('![')) {
      i++; // the curves are above
    } else {
      const from = i;
      while (i < lines.length && lines[i].trim() && (i === from || !starts.test(lines[i]))) i++;
      out.append(h('p', {}, lines.slice(from, i).join(' ')));
    }
  }
  return out;
}

const cells = (line) => line.slice(1, line.lastIndexOf('|')).split(/(?<!\\)\|/).map((c) => c.trim().replace(/\\([!-/:-@[-`{-~])/g, '$1'));
