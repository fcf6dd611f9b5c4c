package optim

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A rule that both numerics have alike is no difference between them.
func TestNumericsDifferInEveryRule(t *testing.T) {
	var differ func(name string, a, b reflect.Value)
	differ = func(name string, a, b reflect.Value) {
		if a.Kind() != reflect.Struct {
			assert.False(t, a.Equal(b), name)
			return
		}
		for i := range a.NumField() {
			differ(name+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
		}
	}
	differ("rules", reflect.ValueOf(Stable.rules()), reflect.ValueOf(EFormer.rules()))
	assert.Equal(t, stableRules, Numerics("").rules())
}
