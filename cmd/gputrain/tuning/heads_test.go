package tuning

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/runfile"
)

func TestHeadMethods(t *testing.T) {
	for row, want := range map[string]string{
		`{"text": "a", "label": 1}`:                               "classes",
		`{"text": "a", "label": "spam"}`:                          "classes",
		`{"prompt": "a", "completion": "b", "label": "rude"}`:     "classes",
		`{"prompt": "a", "completion": "b", "label": 2}`:          "classes",
		`{"prompt": "a", "completion": "b", "label": true}`:       "",
		`{"prompt": "a", "completion": "b", "label": 1}`:          "",
		`{"text": "a", "label": null}`:                            "",
		`{"prompt": "a", "chosen": "b", "rejected": "c"}`:         "",
		`{"query": "a", "positive": "b", "negatives": ["c"]}`:     "embed",
		`{"messages": [{"role": "user", "content": "Hi"}]}`:       "",
		`{"prompt": "a", "completion": "b", "kto_tag": true}`:     "",
		`{"query": "a", "positive": null, "negatives": ["c"]}`:    "",
		`{"messages": [], "label": "x", "chosen": "as in pairs"}`: "",
	} {
		var object map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(row), &object))
		assert.Equal(t, want, HeadOf(object), row)
	}
	for method := range headSettings {
		_, err := runfile.ReadAll(nil, nil, append(HeadSettings(method), "model.from=m", "lora.rank=8", "data.jsonl=rows.jsonl"))
		assert.NoError(t, err, method)
	}
	assert.Nil(t, HeadSettings("sft"))
}
