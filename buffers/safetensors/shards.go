package safetensors

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// defaultShardBytes is the most that a file of weights takes before they are split, as with Hugging Face.
const defaultShardBytes = 5_000_000_000

// Shard is one file of several.
type Shard struct {
	Name    string // "model-00001-of-00003.safetensors"
	Tensors []Tensor
}

// Split deals tensors to files in their order: one that would make the data of a file longer than limit bytes begins the next; 0 is
// what Hugging Face has. Where all fit one file it is stem.safetensors and there is no index; otherwise index is the text of stem.safetensors.index.json.
func Split(stem string, tensors []Tensor, limit uint64) (shards []Shard, index []byte, err error) {
	limit = cmp.Or(limit, defaultShardBytes)
	var at, total uint64
	for _, t := range tensors {
		size, err := byteLength(t.DType, t.Shape)
		if err != nil {
			return nil, nil, fmt.Errorf("safetensors: split: tensor %q: %w", t.Name, err)
		}
		if len(shards) == 0 || at > 0 && at+size > limit {
			shards, at = append(shards, Shard{}), 0
		}
		last := &shards[len(shards)-1]
		last.Tensors = append(last.Tensors, t)
		at, total = at+size, total+size
	}
	if len(shards) < 2 {
		return []Shard{{stem + ".safetensors", tensors}}, nil, nil
	}
	files := map[string]string{}
	for i := range shards {
		shards[i].Name = fmt.Sprintf("%s-%05d-of-%05d.safetensors", stem, i+1, len(shards))
		for _, t := range shards[i].Tensors {
			files[t.Name] = shards[i].Name
		}
	}
	index, err = json.MarshalIndent(map[string]any{"metadata": map[string]uint64{"total_size": total}, "weight_map": files}, "", "  ")
	return shards, append(index, '\n'), err
}
