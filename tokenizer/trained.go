package tokenizer

import (
	"bytes"
	"encoding/json"
)

// JSON is the tokenizer.json of a trained vocabulary, which Hugging Face's library reads.
func (t *Trained) JSON() ([]byte, error) {
	type m = map[string]any
	bytesAlone := m{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	added := []m{}
	for i, s := range t.config.Special {
		added = append(added, m{"id": i, "content": s, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})
	}
	vocab := m{}
	for id, token := range t.Tokens {
		vocab[token] = id
	}
	merges := [][2]string{}
	for _, pair := range t.Merges {
		merges = append(merges, [2]string{t.Tokens[pair[0]], t.Tokens[pair[1]]})
	}
	words := m{"type": "Split", "pattern": m{"Regex": t.config.Pattern}, "behavior": "Isolated", "invert": false}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(m{
		"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added, "normalizer": nil,
		"pre_tokenizer":  m{"type": "Sequence", "pretokenizers": []m{words, bytesAlone}},
		"post_processor": m{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true},
		"decoder":        m{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
		"model": m{
			"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": vocab, "merges": merges,
		},
	})
	return b.Bytes(), err
}
