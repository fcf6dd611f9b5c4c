// Asks llama.cpp about a GGUF file: node judge.mjs FOLDER-WITH-node_modules SETTINGS, then a question a line on standard input, an answer a
// line on standard output, all JSON. Settings are {"model": FILE, "adapter": FILE laid over it, "context": TOKENS}.
//
//   {"tokenize": TEXT}                    the ids
//   {"ends": [IDS]}                       whether each ends an answer
//   {"loss": [IDS]}                       the mean of -log p of each id after those before it
//   {"greedy": [IDS], "tokens": N}        the N likeliest ids, one after another
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";
import readline from "node:readline";

const [folder, settings] = process.argv.slice(2);
const {model: path, adapter, context: tokens} = JSON.parse(settings);
const {getLlama} = await import(pathToFileURL(createRequire(folder + "/").resolve("node-llama-cpp")));
// Two threads wait for each other by spinning: on two busy cores one is forty times as fast.
const llama = await getLlama({maxThreads: 1, gpu: false, build: "never", logLevel: "error"});
const model = await llama.loadModel({modelPath: path, gpuLayers: 0});
const lora = adapter && {adapters: [{filePath: adapter}]};
const context = await model.createContext({lora, contextSize: tokens ?? Math.min(model.trainContextSize, 4096), batchSize: 4096, flashAttention: false, experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32"});
const sequence = context.getSequence();

// next gives the probabilities after the last of some ids, and with all those after each.
async function next(ids, all) {
    const asked = ids.map((id, i) => all || i === ids.length - 1 ? [id, {generateNext: {probabilities: true}}] : id);
    return (await sequence.controlledEvaluate(asked)).map(answer => answer?.next?.probabilities);
}

const answers = {
    async tokenize({tokenize}) { return [...model.tokenize(tokenize, true)].map(Number); },
    async ends({ends}) { return ends.map(id => model.isEogToken(id)); },
    async loss({loss}) {
        await sequence.clearHistory();
        const after = await next(loss.slice(0, -1), true);
        return after.reduce((sum, p, i) => sum - Math.log(p.get(loss[i + 1]) ?? 0), 0) / after.length;
    },
    async greedy({greedy, tokens}) {
        await sequence.clearHistory();
        const out = [];
        for (let ids = greedy; out.length < tokens; ids = out.slice(-1)) {
            const p = (await next(ids, false)).at(-1);
            out.push([...p].reduce((best, one) => one[1] > best[1] ? one : best)[0]);
        }
        return out.map(Number);
    }
};

for await (const line of readline.createInterface({input: process.stdin})) {
    const question = JSON.parse(line);
    try {
        console.log(JSON.stringify(await answers[Object.keys(question)[0]](question)));
    } catch (error) {
        console.log(JSON.stringify({error: String(error)}));
    }
}
process.exit(0);
