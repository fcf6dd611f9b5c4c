package model

import (
	"cmp"
	"io"

	"gputrain/buffers/safetensors"
)

// AdapterFiles are the files of a PEFT directory with the adapters of def, by their names; read is called for each parameter that is trained when its turn
// comes. Of the options those of DType, Like and Base count: where Like knows what the adapters were trained upon, a FingerprintFile says it.
func AdapterFiles(def Definition, read func(path string) ([]float32, error), o ExportOptions) (map[string]func(io.Writer) error, error) {
	m, ok := def.(adapted)
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
		t := safetensors.Tensor{Name: p.Path, DType: cmp.Or(o.DType, "F32"), Shape: p.Shape}
		if o.Like != nil && o.Like.names[p.Path] != "" {
			t.Name = o.Like.names[p.Path]
			if o.DType == "" {
				t.DType = o.Like.in[t.Name].dtype
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
			text, err := Base{Fingerprint: upon.Fingerprint, DType: upon.DType}.Text()
			if err != nil {
				return nil, err
			}
			files[FingerprintFile] = textWriter(text)
		}
	}
	return files, nil
}
