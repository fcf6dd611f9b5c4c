package gpu

import (
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// vulkanFacts are what Vulkan tells of an adapter and WebGPU does not, where the hook below the library asks it (native_matrix.c).
type vulkanFacts struct {
	matrix          MatrixUnits
	multiprocessors int
	tick            float64
}

// tellVulkan completes what adapters are by what Vulkan tells of those of their names. Two of one name may differ, such as parts of one card: the library lists
// them in Vulkan's order. Where it lists another number of them, and they differ, nobody knows which is which, and a line says so.
func tellVulkan(all []nativeAdapter, of func(name string) []vulkanFacts) {
	named := map[string][]*Adapter{}
	for i := range all {
		if a := &all[i].adapter; a.Backend == "vulkan" {
			named[a.Name] = append(named[a.Name], a)
		}
	}
	for name, alike := range named {
		facts := of(name)
		differ := slices.ContainsFunc(facts, func(v vulkanFacts) bool { return !reflect.DeepEqual(v, facts[0]) })
		if differ && len(facts) != len(alike) {
			slog.Warn("gpu: what Vulkan tells of adapters of one name differs, and is not used", "adapter", name, "found", len(facts), "wanted", len(alike))
			continue
		}
		for i, a := range alike {
			if len(facts) > 0 {
				known := facts[min(i, len(facts)-1)]
				a.tick, a.Limits.Matrix, a.Limits.Multiprocessors = known.tick, known.matrix, known.multiprocessors
			}
		}
	}
	for i := range all {
		a := &all[i].adapter
		a.Limits = a.Limits.Named(a.Name)
	}
}

// Named is l as an adapter of that name has it: with the registers of its make and, where nothing has told it, the number of its multiprocessors.
func (l Limits) Named(name string) Limits {
	l.Registers = registersOf(name, l.Software)
	if l.Software {
		l.Multiprocessors, l.MultiprocessorLanes = 0, 0
		return l
	}
	count, lanes := multiprocessorsOf(name)
	if l.Multiprocessors == 0 {
		l.Multiprocessors = count
	}
	if l.Multiprocessors > 0 {
		l.MultiprocessorLanes = lanes
	}
	return l
}

// knownCards have the numbers of multiprocessors of cards, "name count" each, and the lanes of a multiprocessor. Source: the makers' pages of each card and
// their papers of each architecture; of cores that are only told as lanes (AMD's stream processors, NVIDIA's CUDA cores) by division. Where one name is sold
// with several numbers, the largest: Apple's, RTX 3050 and 3080. With the hook, drivers of NVIDIA, AMD and Arm tell, and the number here does not count.
var knownCards = []struct {
	lanes int
	cards string
}{
	{64, `gtx 1650 14, gtx 1650 super 20, gtx 1650 ti 16, gtx 1660 22, gtx 1660 super 22, gtx 1660 ti 24,
		rtx 2060 30, rtx 2060 super 34, rtx 2070 36, rtx 2070 super 40, rtx 2080 46, rtx 2080 super 48, rtx 2080 ti 68, titan rtx 72,
		quadro rtx 4000 36, quadro rtx 5000 48, quadro rtx 6000 72, quadro rtx 8000 72,
		t4 40, p100 56, v100 80, a30 56, a100 108, a800 108`},
	{128, `rtx 3050 20, rtx 3060 28, rtx 3060 ti 38, rtx 3070 46, rtx 3070 ti 48, rtx 3080 70, rtx 3080 ti 80, rtx 3090 82, rtx 3090 ti 84,
		rtx 3050 laptop 16, rtx 3050 ti laptop 20, rtx 3060 laptop 30, rtx 3070 laptop 40, rtx 3070 ti laptop 46, rtx 3080 laptop 48, rtx 3080 ti laptop 58,
		rtx 4060 24, rtx 4060 ti 34, rtx 4070 46, rtx 4070 super 56, rtx 4070 ti 60, rtx 4070 ti super 66, rtx 4080 76, rtx 4080 super 80, rtx 4090 128,
		rtx 4090 d 114, rtx 4050 laptop 20, rtx 4060 laptop 24, rtx 4070 laptop 36, rtx 4080 laptop 58, rtx 4090 laptop 76,
		rtx 5050 20, rtx 5060 30, rtx 5060 ti 36, rtx 5070 48, rtx 5070 ti 70, rtx 5080 84, rtx 5090 170, rtx 5090 d 170,
		rtx 5060 laptop 26, rtx 5070 laptop 36, rtx 5070 ti laptop 46, rtx 5080 laptop 60, rtx 5090 laptop 82,
		rtx a2000 26, rtx a4000 48, rtx a4500 56, rtx a5000 64, rtx a6000 84, rtx 4000 ada 48, rtx 4500 ada 60, rtx 5000 ada 100, rtx 6000 ada 142,
		rtx pro 6000 188, a2 10, a10 72, a10g 80, a40 84, l4 58, l40 142, l40s 142, h20 78, h100 132, h100 pcie 114, h800 132, h800 pcie 114, h200 132,
		gh200 132, b200 148, gb200 148`},
	{64, `rx 470 32, rx 480 36, rx 570 32, rx 580 36, rx 590 36, rx vega 56 56, rx vega 64 64, radeon vii 60,
		rx 5500 22, rx 5500 xt 22, rx 5600 xt 36, rx 5700 36, rx 5700 xt 40,
		rx 6400 12, rx 6500 xt 16, rx 6600 28, rx 6600 xt 32, rx 6650 xt 32, rx 6700 36, rx 6700 xt 40, rx 6750 xt 40, rx 6800 60, rx 6800 xt 72,
		rx 6900 xt 80, rx 6950 xt 80, rx 7600 32, rx 7600 xt 32, rx 7700 xt 54, rx 7800 xt 60, rx 7900 gre 80, rx 7900 xt 84, rx 7900 xtx 96,
		rx 9060 xt 32, rx 9070 gre 48, rx 9070 56, rx 9070 xt 64, w6800 60, w7800 70, w7900 96, mi100 120, mi210 104, mi250x 110, mi300x 304,
		660m 6, 680m 12, 740m 4, 760m 8, 780m 12, 880m 12, 890m 16, 8050s 32, 8060s 40`},
	{128, `arc a310 6, arc a350m 6, arc a370m 8, arc a380 8, arc a550m 16, arc a580 24, arc a730m 24, arc a750 28, arc a770 32, arc a770m 32,
		arc b570 18, arc b580 20, iris xe 6, arc graphics 8, arc 130v 7, arc 140v 8`},
	{64, "hd graphics 530 3, hd graphics 630 3, uhd graphics 620 3, uhd graphics 630 3"},
	{128, `apple m1 8, apple m1 pro 16, apple m1 max 32, apple m1 ultra 64, apple m2 10, apple m2 pro 19, apple m2 max 38, apple m2 ultra 76,
		apple m3 10, apple m3 pro 18, apple m3 max 40, apple m3 ultra 80, apple m4 10, apple m4 pro 20, apple m4 max 40`},
}

// multiprocessorsOf is what the table has of an adapter: the longest of its names that is in the adapter's, as whole words. The lanes of a multiprocessor that
// is not in the table are those of the make.
func multiprocessorsOf(name string) (count, lanes int) {
	words := " " + strings.Join(strings.FieldsFunc(strings.NewReplacer("(r)", " ", "(tm)", " ").Replace(strings.ToLower(name)), func(r rune) bool {
		return !('a' <= r && r <= 'z' || '0' <= r && r <= '9')
	}), " ") + " "
	lanes = 128
	for _, make := range []string{"amd", "radeon", "radv"} {
		if strings.Contains(words, " "+make+" ") {
			lanes = 64
		}
	}
	laptop := strings.Contains(words, " laptop ")
	longest := 0
	for _, of := range knownCards {
		for entry := range strings.SplitSeq(of.cards, ",") {
			entry = strings.TrimSpace(entry)
			at := strings.LastIndexByte(entry, ' ')
			card := entry[:at]
			if len(card) <= longest || !strings.Contains(words, " "+card+" ") || laptop != strings.Contains(card, "laptop") {
				continue
			}
			longest, lanes = len(card), of.lanes
			count, _ = strconv.Atoi(entry[at+1:])
		}
	}
	return count, lanes
}
