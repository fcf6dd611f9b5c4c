// Command isa compiles every kernel that GPUs get with the compiler of a real one, without the card, and holds what comes out to limits:
//
//	go run -C tools/isa . [-kernel REGEXP] [-family LIST]
//
// The compiler is ACO, of Mesa's Vulkan driver for AMD (RADV), whose null device lists a card of any family; layer.c makes it usable. The kernels
// are those of training states of models of true width with every optimizer (kernels.go). It prints a table, and fails where a kernel breaks a limit (limits.go).
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
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
	family := flag.String("family", strings.Join(families, ","), "families of cards")
	flag.Parse()
	exit(run(context.Background(), *kernel, strings.Split(*family, ",")))
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

// families are those that Mesa 22.3 compiles for as it does with a card: RDNA 2, RDNA 1 and Vega.
var families = []string{"navi21", "navi10", "vega10"}

func run(ctx context.Context, kernel string, list []string) error {
	if _, err := regexp.Compile(kernel); err != nil {
		return fmt.Errorf("isa: -kernel: %w", err)
	}
	t, err := newToolchain()
	if err != nil {
		return err
	}
	defer t.remove()
	all, driver, err := t.compile(ctx, list, work{Matching: kernel})
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b figures) int { return cmp.Compare(a.Label, b.Label) })
	fmt.Println(driver)
	if err := writeTable(os.Stdout, all); err != nil {
		return err
	}
	if !strings.Contains(driver, limitsHoldFor) {
		fmt.Fprintf(os.Stderr, "isa: limits not compared: found %s, they hold for %s\n", driver, limitsHoldFor)
		return nil
	}
	return check(all, limits, exceptions, kernel == "" && len(list) == len(families))
}
