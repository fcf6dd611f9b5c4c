package suggest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNearest(t *testing.T) {
	known := []string{"train.steps", "train.batch", "model.layers"}
	for word, want := range map[string]string{
		"train.stpes": "train.steps", "trainsteps": "train.steps", "model.layer": "model.layers", "train.batch": "train.batch",
		"Train.Batch": "train.batch", "TRAIN.STEPS": "train.steps",
		"xyz": "", "": "", "completely.different": "",
	} {
		assert.Equal(t, want, Nearest(word, known), word)
	}
	assert.Equal(t, `, did you mean "train.batch"?`, DidYouMean("train.bach", known))
	assert.Empty(t, DidYouMean("xyz", known))
}

func TestDistance(t *testing.T) {
	for pair, want := range map[[2]string]int{{"", ""}: 0, {"kitten", "sitting"}: 3, {"abc", ""}: 3, {"", "abc"}: 3, {"ab", "ba"}: 2} {
		assert.Equal(t, want, distance(pair[0], pair[1]), pair)
	}
}
