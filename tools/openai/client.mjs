// Asks an endpoint as users of OpenAI's client do: node client.mjs FOLDER URL MODEL, where FOLDER is what install.sh has filled.
import assert from 'node:assert/strict'
import { pathToFileURL } from 'node:url'
import { resolve } from 'node:path'

const [folder, baseURL, model] = process.argv.slice(2)
const { default: OpenAI } = await import(pathToFileURL(resolve(folder, 'node_modules/openai/index.mjs')))
const client = new OpenAI({ baseURL, apiKey: 'any', maxRetries: 0 })
const ask = { model, messages: [{ role: 'user', content: 'Hi' }], temperature: 0, max_tokens: 30 }
const checks = {
  async models() {
    const ids = []
    for await (const one of client.models.list()) ids.push(one.id)
    assert.deepEqual(ids, [model])
    assert.equal((await client.models.retrieve(model)).object, 'model')
  },
  async plain() {
    const got = await client.chat.completions.create(ask)
    assert.equal(got.choices[0].message.content, 'Grüß dich 👍')
    assert.equal(got.choices[0].finish_reason, 'stop')
    assert.equal(got.usage.total_tokens, got.usage.prompt_tokens + got.usage.completion_tokens)
  },
  async stream() {
    const plain = await client.chat.completions.create(ask)
    let text = ''
    let usage
    for await (const part of await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } })) {
      text += part.choices[0]?.delta?.content ?? ''
      usage = part.usage ?? usage
    }
    assert.equal(text, plain.choices[0].message.content)
    assert.deepEqual(usage, plain.usage)
  },
  async helper() {
    const runner = client.chat.completions.stream({ ...ask, logprobs: true, top_logprobs: 2 })
    let text = ''
    runner.on('content', (more) => { text += more })
    const got = await runner.finalChatCompletion()
    assert.equal(text, 'Grüß dich 👍')
    assert.equal(got.choices[0].message.content, text)
    assert.equal(got.choices[0].logprobs.content[0].token, 'G')
    assert.equal(got.choices[0].logprobs.content[0].top_logprobs.length, 2)
  },
  async texts() {
    const got = await client.completions.create({ model, prompt: ['Hi', 'And'], n: 2, seed: 3, max_tokens: 8, logprobs: 1 })
    assert.deepEqual(got.choices.map((c) => c.index), [0, 1, 2, 3])
    assert.equal(got.choices[0].logprobs.tokens.length, got.choices[0].logprobs.token_logprobs.length)
    const again = await client.completions.create({ model, prompt: ['Hi', 'And'], n: 2, seed: 3, max_tokens: 8, logprobs: 1 })
    assert.deepEqual(again.choices, got.choices)
  },
  async stop() {
    const got = await client.chat.completions.create({ ...ask, stop: [' dich'] })
    assert.equal(got.choices[0].message.content, 'Grüß')
  },
  async errors() {
    await assert.rejects(client.chat.completions.create({ ...ask, model: 'gpt-4o' }), OpenAI.NotFoundError)
    const tool = { type: 'function', function: { name: 'f', parameters: {} } }
    await assert.rejects(client.chat.completions.create({ ...ask, tools: [tool] }), (e) => e instanceof OpenAI.BadRequestError && e.param === 'tools')
    await assert.rejects(client.embeddings.create({ model, input: 'x' }), OpenAI.NotFoundError)
  },
  async abort() {
    const stream = await client.chat.completions.create({ ...ask, stream: true, temperature: 2 })
    for await (const part of stream) { if (part) break }
    await checks.plain()
  },
  async many() {
    const all = await Promise.all(Array.from({ length: 30 }, () => client.chat.completions.create(ask)))
    for (const got of all) assert.equal(got.choices[0].message.content, 'Grüß dich 👍')
  },
}
for (const [name, check] of Object.entries(checks)) {
  await check()
  console.log(name)
}
