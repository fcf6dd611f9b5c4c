package model_test

import (
	"fmt"

	"gputrain/model"
)

// A network that reads the matrices of its layers, and its embedding, which is its output head too, as numbers of four bits.
func ExampleWithQuantization() {
	def, err := model.NewGPT2(model.GPT2Config{Layers: 4, Heads: 4, Width: 128, Vocab: 256, Context: 128})
	if err != nil {
		panic(err)
	}
	def, err = model.WithQuantization(def, model.Quantization{Mode: "affine", Bits: 4, Match: []string{`^wte\.`, `^h\..*(attn|mlp).*weight$`}})
	if err != nil {
		panic(err)
	}
	q, count := model.QuantizationOf(def)
	fmt.Println(count, "of", len(def.Params()), "parameters are read as", q)
	// Output: 17 of 52 parameters are read as affine of 4 bits in groups of 64
}
