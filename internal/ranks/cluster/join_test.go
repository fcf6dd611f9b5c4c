package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/ranks/mesh"
)

func TestJoin(t *testing.T) {
	facts := func() Facts {
		return Facts{Program: "v1", Data: "d", Settings: []Fact{{"a", "1"}, {"b", "2"}}, Adapters: []Adapter{{0, "x"}}}
	}
	for want, change := range map[string]func(f *Facts){
		"":                                  func(*Facts) {},
		"program: found v2, sha256 ":        func(f *Facts) { f.Program = "v2" },
		"b: found 3, wanted that of rank 0": func(f *Facts) { f.Settings[1].Value = "3" },
		"b: found none, wanted ":            func(f *Facts) { f.Settings = f.Settings[:1] },
		"c: found 1, wanted ":               func(f *Facts) { f.Settings = append(f.Settings, Fact{"c", "1"}) },
		"settings: found c, wanted ":        func(f *Facts) { f.Settings[1].Key = "c" },
		"data (fingerprint of the text): ":  func(f *Facts) { f.Data = "e" },
	} {
		for rank, err := range together(3, func(rank int, g *mesh.Mesh) error {
			f := facts()
			if rank == 1 {
				change(&f)
			}
			_, err := Join(t.Context(), g, f)
			if err != nil {
				assert.Equal(t, rank == 0, g.Tells(err))
			}
			return err
		}) {
			if want == "" {
				require.NoError(t, err)
				continue
			}
			var different *DifferentError
			require.ErrorAs(t, err, &different, "rank %d", rank)
			assert.ErrorContains(t, err, want)
			assert.ErrorContains(t, err, "rank 1 on host ")
		}
	}
	together(3, func(rank int, g *mesh.Mesh) error {
		f := facts()
		if rank == 2 {
			f.Adapters = []Adapter{{1, "y"}, {2, "x"}}
		}
		j, err := Join(t.Context(), g, f)
		assert.NoError(t, err)
		assert.Equal(t, "x; y", j.Adapter())
		if assert.Len(t, j.Notes, 2) {
			assert.Contains(t, j.Notes[0], "ranks 0, 1 share adapter 0 on host ")
			assert.Contains(t, j.Notes[1], "adapters differ: x on rank 0, 1; x; y on rank 2")
		}
		return nil
	})
}
