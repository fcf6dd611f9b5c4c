package runfile

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/optim"
)

// unknowable are the errors of the program for files that the schema has: what Schema says that it does not know.
var unknowable = []string{
	"a divisor of",                        // pipeline.microbatches of train.batch
	"with pipeline.schedule",              // pipeline.chunks, pipeline.ahead
	"with the interleaved schedule",       // pipeline.chunks
	"one for each of the",                 // pipeline.adapters of pipeline.stages
	"one adapter for the one stage",       // the same
	"all of one form",                     // pipeline.adapters
	"one stage or more on each",           // the same
	"the last of pipeline.stages",         // pipeline.rules of pipeline.stages
	"found both, wanted one of them",      // data.text, data.jsonl, data.mixture
	"bytes, or files in data.text",        // data.tokens without files
	"without documents (data.jsonl)",      // data.eos, data.packing, data.long
	"nothing without data.jsonl",          // data.field, data.held
	"nothing without model.from",          // model.allow_missing
	"nothing without model.quantize.mode", // its other keys
	"nothing without lora.rank",           // or lora.from: other keys of lora
	"nothing beside lora.from",            // likewise
	"with head.objective",                 // its keys, and those of which its loss reads nothing
	"two labels or more",                  // head.num_labels, head.labels
	"with preference.loss",                // its other keys, and those that say nothing of pairs
	"with rollout.loss",                   // likewise, and rewards
	"without data.jsonl, the rows",        // preference.loss
	"with distil.teacher",                 // its other keys, and those that say nothing of a teacher
	"nothing without a teacher that is a", // distil.tail
	"0 with distil.tail ignore",           // distil.beta
	"a model without data.jsonl",          // distil.teacher
	"model.quantize (",                    // bits and group of model.quantize.mode
	"without data.mixture",                // data.mixture_end
	"with data.packing stream",            // data.long
	"with data.field, data.prompt_field",  // data.format
	"none of them with data.format",       // field of a source
	"restart, whose epochs have no end",   // data.epochs
	"has a line for each row",             // data.held
	"files in one of them",                // text and jsonl of a source
	"none of them for text",               // field of a source
	"a regular expression: ",              // its syntax
	"a time such as",                      // one too long
	"intervals whose until ascends",
	"an until in each interval but the last",
	"wanted more than warmup_steps", // optimizer.schedule.steps
	"of adamw",                      // parameters of another optimizer in a file without optimizer.name
	"found null, wanted a number",   // parameters that another optimizer allows null for, in such a file
	"without optimizer.",            // keys that say nothing without another
	"optim: ",                       // ranges of parameters
}

// mutations are files with one key of some value.
func mutations() []string {
	values := strings.Split(strings.TrimSpace(`
null|""|text|"1"|-2|-1|0|1|2|3|5|1.5|0.5|1.0|1e3|1e7|3000000000|30000000000000000000|-0.5|true|false|[]|[1]|[-1]|[0.5]|[0, 1]|[text]|[text, null]|[null]|{h: null}|[[]]|[true]|{}|{a: 1}|{text: true}
90s|90|1d2h|2h1d|90 s|1.5h|-3s|999999999d|6GiB|6 GiB|1.5e3MB|0x10|six|'('|'['|['(']|['']|matrices|f32|bf16|none|[1, 2, 3]|[1, 2, text]|{every: 2}|{every: null}|{anneal: true}|{evry: 2}
[{every: 3}]|[{every: 3, until: 9}, {every: 5}]|[{every: 3}, {every: 5}]|[{every: 3, until: 9}, {every: 5, until: 8}]|[{every: 0}]|[{every: 3, until: null}]|[{until: 3}]|[{every: 3, each: 4}]|[{every: 3, until: -1}]
[{match: a, stage: 0}]|{match: a, stage: 0}|[{match: a, stage: 1}]|[{match: a}]|[{match: '', stage: 0}]|[{match: '(', stage: 0}]|[{match: a, stage: -1}]|[{match: 3, stage: 0}]
["1:0"]|0:0|auto|["00:0", "0:-1"]|["0:0:0"]
[{match: wte, multiplier: 0}]|[{match: wte, multiplier: -1}]|[{match: wte, multiplier: 1e7}]|[{match: wte, multiplier: one}]|[{match: '(', multiplier: 1}]|[{multiplier: 1}]
[{text: a, weight: 1}]|{text: [a, b], weight: 0.5}|[{text: a}]|[{text: null, jsonl: a, weight: 2}]|[{text: a, weight: 0}]|[{text: a, weight: one}]|[{text: a, weight: 1, share: 1}]|[{text: a, jsonl: b, weight: 1}]|[{text: a, weight: 1, field: x}]|[{jsonl: a, weight: 1, field: x}]|[{jsonl: a, weight: 1, field: null}]
`), "\n")
	all := strings.Split(strings.Join(values, "|"), "|")
	for _, r := range rules {
		if names, ok := r.(oneOf); ok {
			all = append(all, names...)
		}
	}
	nest := func(key, value string) string {
		parts := strings.Split(key, ".")
		return strings.Join(parts, ": {") + ": " + value + strings.Repeat("}", len(parts)-1)
	}
	var out []string
	for _, f := range fields {
		for _, v := range all {
			out = append(out, nest(f.key, v))
		}
		out = append(out, nest(f.key+"s", "1"), f.key+": 1")
	}
	for i := range reflect.TypeFor[Run]().NumField() {
		for _, v := range all {
			out = append(out, keyOf(reflect.TypeFor[Run]().Field(i))+": "+v)
		}
	}
	for _, name := range optim.Names() {
		d, _ := optim.Describe(name)
		for i, p := range append(d.Parameters, optim.Parameter{Name: "beta1"}, optim.Parameter{Name: "nothing_of_the_kind"}) {
			_, common := find("optimizer." + p.Name)
			for j, v := range all {
				switch {
				case common || (i+j)%3 == 0:
					out = append(out, fmt.Sprintf("optimizer: {name: %s, parameters: {%s: %s}}", name, p.Name, v))
				case (i+j)%3 == 1:
					out = append(out, fmt.Sprintf("optimizer: {name: %s, %s: %s}", name, p.Name, v))
				default:
					out = append(out, fmt.Sprintf("optimizer: {%s: %s}", p.Name, v))
				}
			}
		}
	}
	// What keys say together.
	return append(out, "", "null", "3", "[]", "text", "modle: {layers: 3}", "optimizer: {schedule: 0.1}", "optimizer: {schedule: {type: cosin}}", "data: {mixture: [{txt: a, weight: 1}]}", "data: {text: a, jsonl: b}", "data: {jsonl: a, held: b}", "data: {jsonl: a, held: b, validation: 0.1}", "data: {jsonl: a, held: b}\ndistil: {teacher: c.jsonl}", "data: {jsonl: a, packing: stream, long: keep_end}", "data: {jsonl: a, packing: stream}",
		"data: {jsonl: a, field: x, format: alpaca}", "data: {mixture: [{jsonl: a, weight: 1, field: x}], format: alpaca}",
		"data: {mixture: [{text: a, weight: 1}], epochs: 2}", "pipeline: {stages: 2, adapters: [0, 1, 2]}", "pipeline: {stages: 2, adapters: ['0:0', 1]}", "pipeline: {schedule: interleaved, chunks: 1}",
		"optimizer: {schedule: {steps: 5, warmup_steps: 5}}", "optimizer: {parameters: {weight_decay: null}}", "data: {jsonl: a, field: x, eos: 3}", "model: {quantize: {mode: affine, bits: 2, group: 32, match: [a]}}",
		"model: {quantize: {mode: affine, bits: 9}}", "model: {quantize: {mode: nf4, bits: 4}}", "model: {quantize: {mode: mxfp4, group: 64}}", "model: {quantize: {mode: nvfp4}}",
		"train: {batch: 4}\npipeline: {microbatches: 3}", "model: {from: a}\nlora: {from: b, rank: 1}", "model: {from: a}\nlora: {rank: 2, rank_pattern: {q_proj: 3}, layers: [0, 2]}",
		"model: {from: a}\nlora: {rank: 2, rank_pattern: {q_proj: 0.5}}",
		"data: {jsonl: a}\npreference: {loss: simpo, beta: 2, simpo_gamma: 1}", "data: {jsonl: a}\npreference: {loss: sigmoid}", "data: {jsonl: a}\npreference: {loss: orpo, beta: 2}",
		"data: {jsonl: a}\npreference: {loss: orpo}\ntrain: {batch: 3}", "data: {jsonl: a, packing: none}\npreference: {loss: orpo}",
		"data: {jsonl: a}\ntrain: {batch: 8}\nrollout: {loss: dapo, epsilon_high: 0.28, delta: 2}\nrewards: [{kind: tags, tags: [a]}]",
		"data: {jsonl: a}\ntrain: {batch: 8}\nrollout: {loss: cispo, epsilon: 0.1}\nrewards: [{kind: tags, tags: [a]}]",
		"data: {jsonl: a}\ntrain: {batch: 4}\nrollout: {loss: gspo}\nrewards: [{kind: tags, tags: [a]}]",
		"data: {jsonl: a}\ntrain: {batch: 8}\nrollout: {loss: grpo}",
		"distil: {teacher: a, beta: 0.5, temperature: 2, fingerprint: b}", "distil: {teacher: a, tail: ignore}", "distil: {teacher: a.jsonl}", "data: {jsonl: a}\ndistil: {teacher: a.jsonl, tail: ignore}",
		"data: {jsonl: a}\ndistil: {teacher: a.jsonl, tail: ignore, beta: 1}", "data: {jsonl: a}\ndistil: {teacher: a}\npreference: {loss: orpo}", "distil: {teacher: a}\ntrain: {z_loss: 1}",
		"data: {jsonl: a}\nhead: {objective: classes, num_labels: 1}", "data: {jsonl: a}\nhead: {objective: embed}\ntrain: {batch: 4, accumulate: 2}\npipeline: {microbatches: 2}")
}

// A file that the program takes is one of the schema, and one that it refuses is none but for what a schema cannot know.
func TestSchemaAgreesWithTheReader(t *testing.T) {
	met := map[string]int{}
	taken, refused := 0, 0
	var files []string
	for i, file := range mutations() {
		if !testing.Short() || i%4 == 0 {
			files = append(files, file)
		}
	}
	for i, mark := range marked(t, files) {
		file, said := files[i], read(files[i])
		if said == nil {
			taken++
			assert.Empty(t, mark, "the reader takes %q", file)
			continue
		}
		refused++
		if mark == "" {
			known := false
			for _, u := range unknowable {
				if strings.Contains(said.Error(), u) {
					known = true
					met[u]++
				}
			}
			assert.True(t, known, "the schema has %q, the reader says: %v", file, said)
		}
	}
	for _, u := range unknowable {
		assert.True(t, testing.Short() || met[u] > 0, "no file was met of which the schema does not know: %s", u)
	}
	t.Logf("%d files taken, %d refused; of those the schema has %v", taken, refused, met)
	assert.Greater(t, taken, 500)
}
