package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// extended is what files beside a tokenizer add to it.
type extended struct {
	all    []addedToken     // tokens as they are now, of which texts make some
	listed []addedToken     // those with an id in files beside a SentencePiece model, or that follow its pieces
	says   []string         // how texts have other tokens than the tokenizer's own file gives them, for people
	from   map[int32]string // file and key of tokens that the tokenizer's own file lacks
}

// extend adds the tokens of files beside a tokenizer.json to its own, by the rules of transformers 5: tokens with a written id come first, then
// bos_token and its kin. A token that the vocabulary has keeps its id there, another gets the next one. How a token of the file is looked for
// follows from added_tokens_decoder, but for the text in which it is: normalized or as it stands.
func (s *settings) extend(v *vocabulary, own []addedToken) (e extended, err error) {
	e.all, e.from = slices.Clone(own), map[int32]string{}
	next, at := int32(len(v.ids)), map[string]int{}
	for i, t := range own {
		at[t.content], next = i, max(next, t.id+1)
	}
	for _, t := range slices.Concat(s.listed, s.named) {
		i, there := at[t.content]
		switch {
		case t.content == "" || there && t.id < 0:
			continue
		case there:
			was := e.all[i]
			t.id, t.special, t.normalized = was.id, was.special || t.special, was.normalized && (was.special || t.normalized)
			if e.all[i] = t.addedToken; was.lookup() != t.lookup() {
				e.says = append(e.says, fmt.Sprintf("%s: %q is looked for in another way", t.where, t.content))
			}
			continue
		}
		id, in := v.ids[t.content]
		if !in {
			id, e.from[next] = next, t.where
		}
		if !in && t.id >= 0 && t.id != id {
			return e, fmt.Errorf("%s: found id %d for %.80q, which tokenizer.json lacks, wanted %d, the next one behind its tokens", t.where, t.id, t.content, id)
		}
		t.id, at[t.content], next = id, len(e.all), max(next, id+1)
		e.all = append(e.all, t.addedToken)
		e.says = append(e.says, fmt.Sprintf("%s: %q is token %d", t.where, t.content, id))
	}
	return e, nil
}

// lookup is how a token is looked for: without what decoding alone asks for.
func (t addedToken) lookup() addedToken {
	t.special = false
	return t
}

// extendPieces makes those pieces of a SentencePiece model tokens that are looked for in texts of which the files beside it say so by an id, and adds
// the tokens that follow the pieces: SentencePiece itself never looks for control pieces.
func (s *settings) extendPieces(v *vocabulary, own []addedToken) (e extended, err error) {
	e.all, e.from = slices.Clone(own), map[int32]string{}
	at := map[int32]int{}
	for i, t := range own {
		at[t.id] = i
	}
	for _, t := range slices.Concat(s.listed, s.named) {
		next := int32(len(v.tokens))
		id, ok := v.ids[t.content]
		switch {
		case t.content == "" || ok && t.id < 0:
			continue
		case !ok && (t.id < 0 || t.id == next):
			id, e.from[next] = next, t.where
			v.ids[t.content], v.tokens = id, append(v.tokens, t.content)
			if t.id < 0 || strings.HasPrefix(t.where, addedFile) {
				e.says = append(e.says, fmt.Sprintf("%s: %q is token %d", t.where, t.content, id))
			}
		case !ok || id != t.id:
			return e, fmt.Errorf("%s: found id %d for %.80q, wanted that of its piece, or %d behind them", t.where, t.id, t.content, next)
		}
		t.id, t.asIs = id, t.normalized
		e.listed = append(e.listed, t.addedToken)
		if i, there := at[id]; there {
			e.all[i] = t.addedToken
			continue
		}
		at[id] = len(e.all)
		e.all = append(e.all, t.addedToken)
	}
	return e, nil
}

// identify gives a tokenizer its fingerprint: that of its file, unless files beside it change the tokens of texts.
func (t *Tokenizer) identify(raw []byte) {
	sum := sha256.Sum256(raw)
	t.alone = hex.EncodeToString(sum[:])
	if t.fingerprint = t.alone; len(t.says) == 0 {
		return
	}
	with := sha256.New()
	fmt.Fprintf(with, "%s %d\n", t.alone, t.end)
	for _, a := range t.added.all {
		fmt.Fprintf(with, "%d %q %v %v %v %v\n", a.id, a.content, a.singleWord, a.lstrip, a.rstrip, a.normalized)
	}
	t.fingerprint = hex.EncodeToString(with.Sum(nil))
}

// Source is the file and the key that have a token which the tokenizer's own file lacks; "" for other ids.
func (t *Tokenizer) Source(id int32) string { return t.added.from[id] }

// Since says what a program that gave the tokenizer a fingerprint did not take from the files beside it; "" where that is not why fingerprints
// differ.
func (t *Tokenizer) Since(fingerprint string) string {
	if len(t.says) == 0 || fingerprint == "" || !strings.HasPrefix(t.alone, fingerprint) {
		return ""
	}
	const most = 4
	if n := len(t.says) - most; n > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(t.says[:most], "; "), n)
	}
	return strings.Join(t.says, "; ")
}

// Padding is the token that fills batches up; "" for none.
func (t *Tokenizer) Padding() string { return t.roles["pad_token"] }

// Read reads a file of the tokenizer's directory, with the tokens in it that other files there add: for programs that
// read one file alone, while they are open. Where there is none, the error is fs.ErrNotExist.
func (t *Tokenizer) Read(name string) ([]byte, error) {
	raw, err := fs.ReadFile(t.from, name)
	var with map[string]any
	switch {
	case len(t.says) == 0:
	case name == "tokenizer.json":
		with = map[string]any{"added_tokens": asFile(t.added.all)}
	case name == configFile:
		with = map[string]any{}
		for role, token := range t.roles {
			with[role] = token
		}
		if listed := map[string]any{}; len(t.added.listed) > 0 {
			for i, token := range asFile(t.added.listed) {
				listed[strconv.Itoa(int(t.added.listed[i].id))] = token
			}
			with["added_tokens_decoder"] = listed
		}
		if errors.Is(err, fs.ErrNotExist) {
			raw, err = []byte("{}"), nil
		}
	}
	if err != nil || with == nil {
		return raw, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	for key, value := range with {
		if fields[key], err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	return json.Marshal(fields)
}

// asFile are tokens as tokenizer.json has them.
func asFile(all []addedToken) (out []map[string]any) {
	for _, t := range all {
		out = append(out, map[string]any{
			"id": t.id, "content": t.content, "single_word": t.singleWord, "lstrip": t.lstrip, "rstrip": t.rstrip, "normalized": t.normalized, "special": t.special,
		})
	}
	return out
}
