package model

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
)

// Adapters are the parameters of adapters in their file.
func (s *Stored) Adapters() (own []array.Host) {
	for _, p := range s.params {
		if host, here := s.param(p); here {
			own = append(own, host)
		}
	}
	return own
}

// AdapterConfig is adapter_config.json of def's adapters, on a base in that directory.
func AdapterConfig(def Definition, base string) ([]byte, error) {
	m, ok := adaptersOf(def)
	if !ok {
		return nil, errNoAdapters
	}
	return m.adapterConfig(base)
}

// DescribeLoRA says which adapters def has, such as "rank 8, alpha 16 on 14 matrices (q_proj, v_proj), 4096 parameters on 125248 that are not trained"; "" where
// it has none.
func DescribeLoRA(def Definition) string {
	m, ok := adaptersOf(def)
	if !ok {
		return ""
	}
	l := m.lora
	kind := ""
	if l.DoRA {
		kind = " with dora"
	}
	if l.RSLoRA {
		kind += " with rslora"
	}
	if l.Dropout > 0 {
		kind += fmt.Sprintf(" with dropout %g", l.Dropout)
	}
	var names []string
	matrices := 0
	for _, a := range m.modules {
		names, matrices = append(names, a.module), matrices+max(1, a.experts)
	}
	trained := int64(0)
	for _, p := range m.own() {
		trained += elements(p.Shape)
	}
	saved := ""
	if len(l.Save) > 0 {
		saved = fmt.Sprintf(" and %s as a whole", strings.Join(l.Save, ", "))
	}
	return fmt.Sprintf("rank %d, alpha %g%s on %d matrices (%s)%s: %d parameters, on %d that are not trained",
		l.Rank, l.Alpha, kind, matrices, strings.Join(lastNames(names), ", "), saved, trained, Parameters(m)-trained)
}

// dtypeOf is that of the tensor with a parameter; "" for none.
func (s *Stored) dtypeOf(p Param) string {
	if s == nil {
		return ""
	}
	return s.in[s.names[p.Path]].DType
}

// adapterFiles are the files of a PEFT directory with the adapters of def, by their names; read is called for each parameter that is trained when its turn
// comes. Of the options those of DType, Like and Base count: where Like knows what the adapters were trained upon, a FingerprintFile says it.
func adapterFiles(def Definition, read func(path string) ([]float32, error), o ExportOptions) (map[string]func(io.Writer) error, error) {
	m, ok := adaptersOf(def)
	if !ok {
		return nil, errNoAdapters
	}
	if o.DType != "" && encoders[o.DType] == nil {
		return nil, errExportDType(o.DType)
	}
	config, err := m.adapterConfig(o.Base)
	if err != nil {
		return nil, err
	}
	var tensors []safetensors.Tensor
	for _, p := range sortParams(m.own()) {
		if p.pieces != nil {
			tensors = append(tensors, inFile(def, p, cmp.Or(o.DType, o.Like.dtypeOf(p), "F32"), read)...)
			continue
		}
		t := safetensors.Tensor{Name: families[m.Kind()].adapterName(def, p.Path), DType: cmp.Or(o.DType, "F32"), Shape: p.Shape}
		if o.Like != nil && o.Like.names[p.Path] != "" {
			name := o.Like.names[p.Path]
			if o.DType == "" {
				t.DType = o.Like.in[name].DType
			}
			if wrapperOf(def) == nil || strings.Contains(name, ".language_model.") { // other programs find no others there
				t.Name = name
			}
		}
		t.Data = dataAs(t.DType, p.Path, read)
		tensors = append(tensors, t)
	}
	files := map[string]func(io.Writer) error{
		AdapterConfigFile:  textWriter(config),
		AdapterWeightsFile: func(w io.Writer) error { return safetensors.Write(w, tensors, Metadata()) },
	}
	if o.Like != nil {
		if upon := cmp.Or(o.Like.from, o.Like.upon); upon != nil {
			b := Base{Fingerprint: upon.Fingerprint, DType: upon.DType}
			if h := HeadOf(def); h.Kind != "" {
				if pad, there := Padding(def); there && h.Kind == HeadScores {
					h.Padding = &pad
				}
				b.Head = &h
			}
			text, err := b.Text()
			if err != nil {
				return nil, err
			}
			files[FingerprintFile] = textWriter(text)
		}
	}
	return files, nil
}
