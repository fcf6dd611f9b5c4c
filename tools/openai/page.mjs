// A chat page in Chromium before an endpoint: node page.mjs FOLDER URL MODEL serves deep-chat, which install.sh has put into FOLDER, and hands its requests on.
// The page says "Hi", once for a whole answer and once for a stream; what it shows is printed.
import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join, resolve } from 'node:path'

const [folder, endpoint, model] = process.argv.slice(2)
const page = `<!doctype html><meta charset=utf-8><body><script type=module>
import '/deepChat.js'
const stream = location.hash === '#stream'
const tell = (said) => fetch('/said', { method: 'POST', body: JSON.stringify(said) })
const chat = document.createElement('deep-chat')
chat.directConnection = { openAI: { key: 'any', completions: true } }
chat.connect = { url: '/v1/chat/completions', stream, additionalBodyProps: { model: '${model}', temperature: 0, max_tokens: 30 } }
chat.onError = (e) => tell({ role: 'error', text: JSON.stringify(e) })
chat.onMessage = ({ message }) => message.role === 'user' || tell(message)
chat.onComponentRender = () => { chat.onComponentRender = null; setTimeout(() => chat.submitUserMessage({ text: 'Hi' })) }
document.body.append(chat)
</script>`
let browser
const open = (hash) => {
  browser = spawn('chromium', ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-background-networking',
    '--remote-debugging-port=0', '--user-data-dir=' + resolve(folder, 'browser' + shown.length), `http://127.0.0.1:${server.address().port}/${hash}`], { stdio: 'ignore' })
}
const end = (code) => {
  browser.kill()
  process.exit(code)
}
const shown = []
const server = createServer(async (request, response) => {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  const body = Buffer.concat(chunks)
  if (request.url.startsWith('/v1/')) {
    const answer = await fetch(endpoint + request.url.slice(3), { method: request.method, headers: { 'Content-Type': 'application/json' }, body })
    response.writeHead(answer.status, { 'Content-Type': answer.headers.get('Content-Type') })
    for await (const chunk of answer.body) response.write(chunk)
    response.end()
  } else if (request.url === '/said') {
    response.end()
    const { role, text } = JSON.parse(body)
    console.log(role, text)
    if (role !== 'ai') end(1)
    shown.push(text)
    if (shown.length === 2) end(0)
    browser.kill()
    open('#stream')
  } else if (request.url === '/deepChat.js') {
    response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(await readFile(join(folder, 'node_modules/deep-chat/dist/deepChat.bundle.js')))
  } else {
    response.writeHead(200, { 'Content-Type': 'text/html' }).end(page)
  }
})
server.listen(0, '127.0.0.1', () => open(''))
setTimeout(() => {
  console.log('nothing came in two minutes')
  end(1)
}, 120_000)
