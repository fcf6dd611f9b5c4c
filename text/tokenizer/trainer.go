package tokenizer

import (
	"bytes"
	"container/heap"
	"context"
	"encoding/json"
)

// trainer merges pairs in words. It follows Hugging Face's trainer step by step, also where two ways to the same text make
// a pair come twice.
type trainer struct {
	config TrainConfig
	ids    map[string]int32
	tokens []string
	merges [][2]int32
	words  [][]int32
	counts []int64 // how often each word comes

	pairs map[[2]int32]int64 // how often each pair comes
	queue candidates
}

// candidate is a pair that may be merged, and the words that have it.
type candidate struct {
	pair  [2]int32
	count int64
	words []int32
}

// candidates are a heap: the most frequent on top, of equals the smallest ids.
type candidates []*candidate

func (c candidates) Len() int      { return len(c) }
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(*candidate)) }

func (c candidates) Less(i, j int) bool {
	a, b := c[i], c[j]
	switch {
	case a.count != b.count:
		return a.count > b.count
	case a.pair[0] != b.pair[0]:
		return a.pair[0] < b.pair[0]
	}
	return a.pair[1] < b.pair[1]
}

func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// add gives a token its id: the one it has, or the next.
func (t *trainer) add(token string) int32 {
	id, ok := t.ids[token]
	if !ok {
		id = int32(len(t.tokens))
		t.ids[token] = id
		t.tokens = append(t.tokens, token)
	}
	return id
}

// run merges until the vocabulary is full or no pair is frequent enough.
func (t *trainer) run(ctx context.Context) error {
	t.pairs = map[[2]int32]int64{}
	found := map[[2]int32][]int32{}
	for i, word := range t.words {
		for j := 1; j < len(word); j++ {
			t.note(found, [2]int32{word[j-1], word[j]}, t.counts[i], int32(i))
		}
	}
	t.enqueue(found)
	for len(t.tokens) < t.config.VocabSize && len(t.queue) > 0 {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		top := t.queue[0]
		if now := t.pairs[top.pair]; top.count != now {
			top.count = now // other merges have taken from it
			heap.Fix(&t.queue, 0)
			continue
		}
		if top.count < 1 || top.count < t.config.MinFrequency {
			break
		}
		heap.Pop(&t.queue)
		t.merge(top)
	}
	t.merges = lastOfEach(t.merges)
	return nil
}

// note counts a pair of a word, and that the word has it.
func (t *trainer) note(found map[[2]int32][]int32, pair [2]int32, count int64, word int32) {
	t.pairs[pair] += count
	if words := found[pair]; len(words) == 0 || words[len(words)-1] != word {
		found[pair] = append(words, word)
	}
}

func (t *trainer) enqueue(found map[[2]int32][]int32) {
	for pair, words := range found {
		if count := t.pairs[pair]; count > 0 {
			heap.Push(&t.queue, &candidate{pair, count, words})
		}
	}
}

// merge makes one token of a pair in all words that have it.
func (t *trainer) merge(c *candidate) {
	left, right := c.pair[0], c.pair[1]
	id := t.add(t.tokens[left] + t.tokens[right])
	t.merges = append(t.merges, c.pair)
	found := map[[2]int32][]int32{}
	for _, w := range c.words {
		word, count := t.words[w], t.counts[w]
		kept := word[:0]
		for i := 0; i < len(word); i++ {
			if word[i] != left || i+1 == len(word) || word[i+1] != right {
				kept = append(kept, word[i])
				continue
			}
			if n := len(kept); n > 0 {
				t.pairs[[2]int32{kept[n-1], left}] -= count
				t.note(found, [2]int32{kept[n-1], id}, count, w)
			}
			if i++; i+1 < len(word) {
				t.pairs[[2]int32{right, word[i+1]}] -= count
				t.note(found, [2]int32{id, word[i+1]}, count, w)
			}
			kept = append(kept, id)
		}
		t.words[w] = kept
	}
	t.enqueue(found)
}

// lastOfEach leaves the last of merges that came twice: that is the rank that counts.
func lastOfEach(merges [][2]int32) (kept [][2]int32) {
	last := map[[2]int32]int{}
	for i, m := range merges {
		last[m] = i
	}
	for i, m := range merges {
		if last[m] == i {
			kept = append(kept, m)
		}
	}
	return kept
}

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
