package gpu

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Names are those that drivers give on Vulkan, Direct3D 12, Metal and OpenGL.
func TestMultiprocessorsOfCards(t *testing.T) {
	for name, want := range map[string][2]int{
		"NVIDIA H100 80GB HBM3":                       {132, 128},
		"NVIDIA H100 PCIe":                            {114, 128},
		"NVIDIA A100-SXM4-80GB":                       {108, 64},
		"NVIDIA GeForce RTX 3060":                     {28, 128},
		"NVIDIA GeForce RTX 3060 Ti":                  {38, 128},
		"NVIDIA GeForce RTX 3060 Laptop GPU":          {30, 128},
		"GeForce RTX 2060/PCIe/SSE2":                  {30, 64},
		"NVIDIA GeForce RTX 2060 Laptop GPU":          {0, 128},
		"Tesla T4":                                    {40, 64},
		"NVIDIA L4":                                   {58, 128},
		"AMD Radeon RX 7900 XTX (RADV NAVI31)":        {96, 64},
		"AMD Radeon RX 7900 XT":                       {84, 64},
		"AMD Radeon RX 5700 XT":                       {40, 64},
		"Radeon RX Vega 64":                           {64, 64},
		"AMD Radeon 780M Graphics (RADV PHOENIX)":     {12, 64},
		"AMD Radeon Graphics (RADV RENOIR)":           {0, 64},
		"Intel(R) Arc(tm) A770 Graphics (DG2)":        {32, 128},
		"Intel(R) Arc(TM) B580 Graphics":              {20, 128},
		"Mesa Intel(R) Iris(R) Xe Graphics (TGL GT2)": {6, 128},
		"Apple M1 (G13G B1)":                          {8, 128},
		"Apple M2 Max":                                {38, 128},
		"Mali-G78":                                    {0, 128},
	} {
		count, lanes := multiprocessorsOf(name)
		assert.Equal(t, want, [2]int{count, lanes}, name)
	}
	for _, of := range knownCards { // each is found by its own name
		for entry := range strings.SplitSeq(of.cards, ",") {
			words := strings.Fields(entry)
			require.Greater(t, len(words), 1, entry)
			count, lanes := multiprocessorsOf(strings.Join(words[:len(words)-1], " "))
			assert.Equal(t, of.lanes, lanes, entry)
			assert.Greater(t, count, 1, entry)
		}
	}
}

// A driver's number counts before the table's, one of Options before both, and software has none.
func TestMultiprocessorsOfLimits(t *testing.T) {
	l := Limits{Multiprocessors: 16}.Named("NVIDIA H100 80GB HBM3")
	assert.Equal(t, []int{16, 128}, []int{l.Multiprocessors, l.MultiprocessorLanes}, "a part of a card")
	l = l.within(Limits{Multiprocessors: 132})
	assert.Equal(t, []int{132, 128}, []int{l.Multiprocessors, l.MultiprocessorLanes})
	assert.Equal(t, l.Multiprocessors, l.within(Limits{}).Multiprocessors)
	assert.Equal(t, 132, Dry(l).Limits().Multiprocessors)
	assert.Zero(t, Limits{Software: true}.Named("llvmpipe on an RTX 3060").Multiprocessors)
	assert.Zero(t, Limits{}.Named("a card").MultiprocessorLanes)
}

// Adapters of one name are told apart by their order; where that cannot be, a line says so and the table counts.
func TestVulkanTellsAdaptersApart(t *testing.T) {
	var log strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	const card = "NVIDIA GeForce RTX 3060"
	units := MatrixUnits{Shapes: []MatrixShape{{16, 16, 16}}, Lanes: 32, Subgroups: 32}
	part := func(n int) vulkanFacts { return vulkanFacts{units, n, 1} }
	for _, c := range []struct {
		told  []vulkanFacts
		want  []int
		lines int
	}{
		{[]vulkanFacts{part(14), part(12)}, []int{14, 12}, 0},
		{[]vulkanFacts{part(14), part(14), part(14)}, []int{14, 14}, 0},
		{[]vulkanFacts{part(14), part(12), part(12)}, []int{28, 28}, 1},
		{nil, []int{28, 28}, 0},
	} {
		log.Reset()
		all := []nativeAdapter{{adapter: Adapter{Name: card, Backend: "vulkan"}}, {adapter: Adapter{Name: card, Backend: "gl"}}, {adapter: Adapter{Name: card, Backend: "vulkan"}}}
		tellVulkan(all, func(string) []vulkanFacts { return c.told })
		first, gl, second := all[0].adapter, all[1].adapter, all[2].adapter
		assert.Equal(t, c.want, []int{first.Limits.Multiprocessors, second.Limits.Multiprocessors}, "%v", c)
		assert.Equal(t, 28, gl.Limits.Multiprocessors)
		assert.Equal(t, c.lines, strings.Count(log.String(), "of one name differs"), log.String())
		assert.Equal(t, c.want[0] == 14, first.tick == 1 && len(second.Limits.Matrix.Shapes) == 1, "%v", c)
	}
}

// The hook tells the length of a tick, and of software no multiprocessors.
func TestVulkanTells(t *testing.T) {
	a := anyAdapter(t)
	if a.Backend != "vulkan" || len(vulkanFactsOf(a.Name)) == 0 {
		t.Skipf("skipped, needs the hook and Vulkan, found %s", a)
	}
	assert.Greater(t, a.tick, 0.0)
	assert.Less(t, a.tick, 1e4)
	if a.Limits.Software {
		assert.Zero(t, a.Limits.Multiprocessors)
	}
}
