// Command isa compiles every kernel that GPUs get with the compilers of real ones, without the cards, and holds what comes out to limits:
//
//	go run -C tools/isa . [-kernel REGEXP] [-family LIST] [-shims FOLDER] [-mesa TREE]
//
// The compilers are those of Mesa's Vulkan drivers. RADV (AMD) has a null device, which layer.c makes usable; for RDNA 3 shims.sh unpacks a newer RADV,
// which compiles products by matrix units. The others run on a shim in place of their kernel driver, which shims.sh builds: ANV (Intel) as it is
// installed, NVK (NVIDIA), Turnip (Adreno) and Honeykrisp (Apple) out of the tree of a system with a newer Mesa. What is not there is named and left
// out. The kernels are those of training states of models of true width with every optimizer (kernels.go). It prints a table, and fails where a kernel
// breaks a limit (limits.go).
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == childArgument {
		exit(child(context.Background(), os.Args[2]))
		return
	}
	kernel := flag.String("kernel", "", "regular expression: only kernels whose label matches")
	family := flag.String("family", "", "families of cards, parted by commas; empty: all that can be compiled for")
	shims := flag.String("shims", os.Getenv("GPUTRAIN_ISA_SHIMS"), "folder of the shims that shims.sh has built")
	mesa := flag.String("mesa", os.Getenv("GPUTRAIN_ISA_MESA"), "tree with a newer Mesa, as tools/mesa.sh brings")
	flag.Parse()
	var families []string
	if *family != "" {
		families = strings.Split(*family, ",")
	}
	exit(run(context.Background(), *kernel, families, *shims, *mesa))
}

func exit(err error) {
	var missing *missingError
	switch {
	case errors.As(err, &missing):
		fmt.Fprintln(os.Stderr, "isa: skipped:", missing)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kernel string, families []string, shims, mesa string) error {
	if _, err := regexp.Compile(kernel); err != nil {
		return fmt.Errorf("isa: -kernel: %w", err)
	}
	t, err := newToolchain(shims, mesa)
	if err != nil {
		return err
	}
	defer t.remove()
	cards, missing, err := t.available(families)
	if err != nil {
		return err
	}
	for _, line := range missing {
		fmt.Fprintln(os.Stderr, "isa: left out:", line)
	}
	all, found, err := t.compile(ctx, cards, work{Matching: kernel})
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b figures) int { return cmp.Compare(a.Label, b.Label) })
	for _, name := range slices.Sorted(maps.Keys(found)) {
		fmt.Printf("%s: %s\n", name, found[name])
	}
	if err := writeTable(os.Stdout, all); err != nil {
		return err
	}
	return check(all, cards, found, kernel == "")
}
