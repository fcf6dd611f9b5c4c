package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
	"gputrain/model"
	"gputrain/run/runfile"
	"gputrain/text/tokenizer"
)

// readModel is a model that was read, with more keys in its config.json.
func readModel(t *testing.T, more string) *Model {
	t.Helper()
	def, err := model.ParseConfig([]byte(`{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,
		"intermediate_size": 16, "vocab_size": 1024, "max_position_embeddings": 16, "rms_norm_eps": 1e-5` + more + `}`))
	require.NoError(t, err)
	return &Model{Dir: "/base", Definition: def}
}

// planOf is the plan of rows with a head.
func planOf(t *testing.T, w World, sets ...string) (*Plan, error) {
	t.Helper()
	spec, err := runfile.ReadAll(nil, nil, append([]string{"model.from=/base", "data.jsonl=rows.jsonl", "optimizer.schedule.warmup_steps=0"}, sets...))
	require.NoError(t, err)
	return Resolve(spec, w)
}

// A model of scores is written with a pad_token_id with which no row ends, and what it is said to be is told.
func TestPaddingEndsNoRow(t *testing.T) {
	b, err := hub.OpenTokenizer("../../text/tokenizer/testdata/qwen2")
	require.NoError(t, err)
	defer b.Close()
	tok, err := tokenizer.Open(b)
	require.NoError(t, err)
	ends, special := tok.EndTokens(), tok.Special()
	special = slices.DeleteFunc(special, func(id int32) bool { return slices.Contains(ends, id) })
	for name, c := range map[string]struct {
		more   string
		tokens Tokens
		sets   []string
		pad    func(id int32) bool
		told   string
	}{
		"bytes":            {"", Tokens{Kind: ByteTokens}, nil, func(id int32) bool { return id == 255 }, "pad_token_id 255 of the model that is written: a byte that no text has"},
		"another is there": {`, "pad_token_id": 7`, Tokens{Kind: ByteTokens}, nil, func(id int32) bool { return id == 7 }, ""},
		"it ends rows":     {`, "pad_token_id": 0`, Tokens{Kind: ByteTokens}, nil, func(id int32) bool { return id == 255 }, "pad_token_id 255"},
		"255 ends rows":    {"", Tokens{Kind: ByteTokens}, []string{"data.eos=255"}, nil, "warning: the model that is written has no pad_token_id"},
		"ids":              {"", Tokens{Kind: "u16"}, nil, nil, "warning: the model that is written has no pad_token_id"},
		"a tokenizer": {
			fmt.Sprintf(`, "pad_token_id": %d`, ends[0]),
			Tokens{Kind: TokenizerTokens, Tokenizer: tok},
			nil,
			func(id int32) bool { return id != ends[0] && int(id) < tok.VocabSize() }, "pad_token_id",
		},
		"a template ends rows with it": {
			fmt.Sprintf(`, "pad_token_id": %d`, special[0]),
			Tokens{Kind: TokenizerTokens, Tokenizer: tok, Closing: &special[0]},
			nil,
			func(id int32) bool { return id != special[0] && !slices.Contains(ends, id) }, "pad_token_id",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := planOf(t, World{Model: readModel(t, c.more), Tokens: c.tokens}, append(c.sets, "head.objective=reward", "train.batch=2")...)
			require.NoError(t, err)
			pad, there := model.Padding(p.State.Definition)
			assert.Equal(t, c.pad != nil, there)
			if there {
				assert.True(t, c.pad(pad), pad)
			}
			told := strings.Join(p.Told, "\n")
			assert.Contains(t, told, c.told)
			assert.Contains(t, told, "a new head of 1 scores a row is drawn")
			assert.Equal(t, c.told == "", !strings.Contains(told, "pad_token_id"))
			assert.Zero(t, p.Spec.Train.Sample.Tokens, "it writes no text")
		})
	}
}

// The labels of a model are those that its run file names, else its directory's, else those of the rows.
func TestLabelsOfAHead(t *testing.T) {
	rows := &Labels{Names: []string{"a", "b", "c"}, Count: 3}
	headed := readModel(t, "")
	var err error
	headed.Definition, err = model.WithHead(headed.Definition, model.Head{Kind: model.HeadScores, Labels: 2, Names: []string{"no", "yes"}})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		model  *Model
		labels *Labels
		sets   []string
		count  int
		names  []string
		wrong  string
	}{
		"rows":          {readModel(t, ""), rows, nil, 3, rows.Names, ""},
		"numbers":       {readModel(t, ""), &Labels{Count: 4}, nil, 4, nil, ""},
		"the run file":  {readModel(t, ""), nil, []string{"head.labels=[x, y]"}, 2, []string{"x", "y"}, ""},
		"more":          {readModel(t, ""), rows, []string{"head.num_labels=4"}, 4, []string{"a", "b", "c", "LABEL_3"}, ""},
		"fewer":         {readModel(t, ""), rows, []string{"head.num_labels=2"}, 0, nil, "head.num_labels (--set): found 2, wanted 3 or more"},
		"one":           {readModel(t, ""), &Labels{Count: 1}, nil, 0, nil, "wanted two labels or more in data.jsonl, found 1"},
		"a directory's": {headed, nil, nil, 2, []string{"no", "yes"}, ""},
		"others":        {headed, nil, []string{"head.labels=[x, y, z]"}, 0, nil, "wanted 2 labels, as model.from has"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := planOf(t, World{Model: c.model, Labels: c.labels, Tokens: Tokens{Kind: ByteTokens}}, append(c.sets, "head.objective=classes")...)
			if c.wrong != "" {
				require.ErrorContains(t, err, c.wrong)
				return
			}
			require.NoError(t, err)
			h := model.HeadOf(p.State.Definition)
			assert.Equal(t, c.count, h.Labels)
			assert.Equal(t, c.names, h.Names)
			assert.Equal(t, c.count, p.Spec.Head.NumLabels, "as a run records it")
			assert.Equal(t, c.model == headed, !strings.Contains(strings.Join(p.Told, "\n"), "a new head"))
		})
	}
	p, err := planOf(t, World{Model: readModel(t, ""), Tokens: Tokens{Kind: ByteTokens}}, "head.objective=embed", "head.pooling=mean", "train.batch=4")
	require.NoError(t, err)
	assert.Equal(t, model.Head{Kind: model.HeadVectors, Pooling: model.PoolingMean}, model.HeadOf(p.State.Definition))
	vectors := &Model{Dir: "/base", Definition: p.State.Definition}
	p, err = planOf(t, World{Model: vectors, Tokens: Tokens{Kind: ByteTokens}}, "head.objective=embed", "train.batch=4")
	require.NoError(t, err)
	assert.Equal(t, model.PoolingMean, p.Spec.Head.Pooling, "that of the directory")
	_, err = planOf(t, World{Model: headed, Tokens: Tokens{Kind: ByteTokens}})
	require.ErrorContains(t, err, "found 2 scores a row in /base in place of logits, wanted head.objective reward, classes or embed")
}
