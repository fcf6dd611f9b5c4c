// Writes the files of this folder: npm install parquet-wasm@0.8.0 apache-arrow@21.2.0 && node make.mjs .
import * as arrow from 'apache-arrow';
import * as fs from 'fs';
import * as pq from 'parquet-wasm/node';
const {Utf8, Int64, Int32, Float64, Float32, Bool, List, Struct, Field, vectorFromArray, Table} = arrow;
const call = new Struct([new Field('name', new Utf8(), true), new Field('arguments', new Utf8(), true)]);
const message = new Struct([
  new Field('role', new Utf8(), true), new Field('content', new Utf8(), true),
  new Field('tool_calls', new List(new Field('element', call, true)), true)]);
const rows = [];
for (let i = 0; i < 40; i++) {
  const messages = [];
  for (let j = 0; j < i % 4; j++) messages.push({role: j % 2 ? 'assistant' : 'user', content: j == 2 ? null : `line ${i}\n"${j}" é 😀`,
    tool_calls: j == 1 && i % 2 ? [{name: 'f', arguments: '{"x": 1}'}, {name: null, arguments: ''}] : null});
  rows.push({text: `${"ab ".repeat(i % 5)}é${i}`, messages, id: i % 5 == 3 ? null : BigInt(i) * 1000000007n, score: i % 7 == 0 ? null : i / 8, small: i - 20, half: i / 4, ok: i % 3 ? i % 2 == 0 : null,
    tags: i % 6 == 5 ? null : Array.from({length: i % 3}, (_, k) => k == 1 ? null : 't' + k)});
}
const types = {text: new Utf8(), messages: new List(new Field('element', message, true)), id: new Int64(), score: new Float64(), small: new Int32(), half: new Float32(), ok: new Bool(), tags: new List(new Field('element', new Utf8(), true))};
const cols = {};
for (const [k, t] of Object.entries(types)) cols[k] = vectorFromArray(rows.map(r => r[k]), t);
const table = new Table(cols);
const ipc = arrow.tableToIPC(table, 'stream');
const drop = (v) => Array.isArray(v) ? '[' + v.map(drop).join(', ') + ']' :
  v === null ? 'null' : typeof v === 'object' ? '{' + Object.entries(v).filter(([, x]) => x !== null).map(([k, x]) => JSON.stringify(k) + ': ' + (k == 'score' || k == 'half' ? (Number.isInteger(x) ? x + '.0' : String(x)) : drop(x))).join(', ') + '}' :
  typeof v === 'bigint' ? v.toString() : JSON.stringify(v);
fs.writeFileSync(process.argv[2] + '/rows.jsonl', rows.map(drop).join('\n') + '\n');
for (const [name, c] of [['plain', pq.Compression.UNCOMPRESSED], ['snappy', pq.Compression.SNAPPY], ['gzip', pq.Compression.GZIP], ['zstd', pq.Compression.ZSTD]]) {
  let b = new pq.WriterPropertiesBuilder().setCompression(c).setMaxRowGroupSize(16);
  if (name == 'gzip') b = b.setWriterVersion(pq.WriterVersion.V2);
  if (name == 'zstd') b = b.setDictionaryEnabled(false);
  fs.writeFileSync(process.argv[2] + `/${name}.parquet`, pq.writeParquet(pq.Table.fromIPCStream(ipc), b.build()));
}
