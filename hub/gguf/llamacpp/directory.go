package llamacpp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"gputrain/buffers/array"
	"gputrain/hub/gguf"
)

// Directory is a GGUF file as the Hugging Face directory that it stands for.
type Directory struct {
	file    *gguf.File
	kind    string // model_type
	family  family
	stated  facts
	tensors []array.Tensor
}

// New finds a place for each tensor of a file, which stays the caller's.
func New(file *gguf.File) (*Directory, error) {
	d := &Directory{file: file}
	if err := d.open(); err != nil {
		return nil, fmt.Errorf("gguf: open %q: %w", file.Path(), err)
	}
	return d, nil
}

// Tensors are all tensors under Hugging Face's names, with the shapes and the order of rows that they have there, in the order of
// the file.
func (d *Directory) Tensors() []array.Tensor { return slices.Clone(d.tensors) }

// kinds are the model types of llama.cpp's architectures, without what it computes as others.
var kinds = func() map[string][]string {
	of := map[string][]string{}
	for _, kind := range Families() {
		if f := families[kind]; f.class != "" {
			of[f.arch] = append(of[f.arch], kind)
		}
	}
	return of
}()

func (d *Directory) open() error {
	general := general(d)
	if what := general.text("type"); what != "" && what != "model" {
		return fmt.Errorf("key general.type: found %q, wanted a model%s", what, otherFiles[what])
	}
	arch := general.text("architecture")
	of, ok := kinds[arch]
	if arch == "" {
		return errors.New("key general.architecture: found none, wanted one: it is no model of llama.cpp's")
	}
	if !ok {
		return fmt.Errorf("key general.architecture: found %q, wanted one of %s: others are not read", arch, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	d.stated = facts{d.file, arch + "."}
	for _, kind := range of {
		_, told := d.file.Value(d.stated.prefix + families[kind].told)
		if f := families[kind]; told || f.told == "" && d.kind == "" {
			d.kind, d.family = kind, f
		}
	}
	for _, info := range d.file.Tensors() {
		if constants[info.Name] || arch == "gemma3" && ofImages.MatchString(info.Name) {
			continue
		}
		name, err := d.family.huggingFaceName(info.Name)
		if err != nil {
			return err
		}
		if err := info.Type.Refuse(); err != nil {
			return fmt.Errorf("tensor %q: %w", info.Name, err)
		}
		p, err := d.parameter(name, info)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", info.Name, err)
		}
		d.tensors = append(d.tensors, oneByOne(p)...)
	}
	return nil
}

// otherFiles are what GGUF files have besides models.
var otherFiles = map[string]string{
	"adapter": ": these are low-rank adapters, which llama.cpp lays over a model; gputrain takes adapters as a PEFT directory, from gputrain export or from where they were trained",
	"mmproj":  ": this is the part of a model that sees images; its text has a file of its own",
	"imatrix": ": these are statistics by which llama-quantize quantizes a model",
}

// ofImages are the tensors by which a Gemma 3 sees images, in files that Ollama has made: the text part is read without them, as from a directory.
var ofImages = regexp.MustCompile(`^(v|mm)\.`)

// constants are tensors that config.json says in numbers.
var constants = map[string]bool{ropeFactors: true, ropeShort: true, ropeLong: true}

// Has tells whether the directory has a file of a name: config.json, generation_config.json, one of the tokenizer's, or README.md, which says the licence. Of a tokenizer that is not read it has
// all, and to read them says why.
func (d *Directory) Has(name string) bool {
	kind := d.vocab().text("model")
	switch name {
	case "config.json", "generation_config.json":
		return true
	case "tokenizer.json":
		return kind != "" && kind != "none" && kind != "llama"
	case "tokenizer.model":
		return kind != "" && kind != "none" && kind != "gpt2"
	case "tokenizer_config.json":
		return kind != ""
	case "README.md":
		return general(d).text("license") != ""
	}
	return false
}

// Read makes a file that the directory has. Others are fs.ErrNotExist.
func (d *Directory) Read(name string) ([]byte, error) {
	if !d.Has(name) {
		return nil, fmt.Errorf("gguf: %q: %s: %w", d.file.Path(), name, fs.ErrNotExist)
	}
	raw, err := map[string]func() ([]byte, error){
		"config.json": d.config, "generation_config.json": d.generation,
		"tokenizer.json": d.byteLevel, "tokenizer.model": d.sentencePiece, "tokenizer_config.json": d.tokenizerConfig, "README.md": d.card,
	}[name]()
	if err != nil {
		return nil, fmt.Errorf("gguf: %q: as %s: %w", d.file.Path(), name, err)
	}
	return raw, nil
}

// card is the head of a model's card: its licence.
func (d *Directory) card() ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("---\n")
	for _, row := range [][2]string{{"license", "license"}, {"license_name", "license.name"}, {"license_link", "license.link"}} {
		if said := general(d).text(row[1]); said != "" {
			text, err := json.Marshal(said)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&out, "%s: %s\n", row[0], text)
		}
	}
	out.WriteString("---\n")
	return out.Bytes(), nil
}

func general(d *Directory) facts { return facts{d.file, "general."} }

// facts are the keys of a file with one beginning.
type facts struct {
	file   *gguf.File
	prefix string
}

func (f facts) text(key string) string {
	v, _ := f.file.Value(f.prefix + key)
	s, _ := v.(string)
	return s
}

func (f facts) number(key string) (float64, bool) {
	v, _ := f.file.Value(f.prefix + key)
	switch v := v.(type) {
	case float32:
		return float64(v), true
	case float64:
		return v, true
	}
	n, ok := f.file.Integer(f.prefix + key)
	return float64(n), ok
}

// or is a number, or absent, as the shortest decimal that is the same float32: 1e-5 and not 9.999999747378752e-06.
func (f facts) or(key string, absent float64) float64 {
	v, ok := f.number(key)
	if !ok {
		return absent
	}
	return short(v)
}

func (f facts) integer(key string) (int, bool) {
	n, ok := f.file.Integer(f.prefix + key)
	return int(n), ok
}

// id is a token's number; -1 where there is none.
func (f facts) id(key string) int {
	if n, ok := f.integer(key); ok {
		return n
	}
	return -1
}

// ids are the tokens of one meaning, such as eos: the one that llama.cpp has, and those that Ollama has beside it.
func (f facts) ids(name string) (ids []int) {
	if id := f.id(name + "_token_id"); id >= 0 {
		ids = append(ids, id)
	}
	v, _ := f.file.Value(f.prefix + name + "_token_ids")
	signed, _ := v.([]int32)
	unsigned, _ := v.([]uint32)
	for _, id := range unsigned {
		signed = append(signed, int32(min(id, math.MaxInt32)))
	}
	for _, id := range signed {
		if id >= 0 && !slices.Contains(ids, int(id)) {
			ids = append(ids, int(id))
		}
	}
	return ids
}

func (f facts) flag(key string, absent bool) bool {
	v, _ := f.file.Value(f.prefix + key)
	if b, ok := v.(bool); ok {
		return b
	}
	return absent
}
