package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"gputrain/gguf/modeldir"
)

// areText refuses arguments that are not UTF-8: on their way to a value other bytes would take the place of theirs.
func areText(args []string) error {
	for _, a := range args {
		if !utf8.ValidString(a) {
			return fmt.Errorf("argument %q: found bytes that are not UTF-8, wanted text; a pattern such as a?.txt names a file whose name is not", a)
		}
	}
	return nil
}

// removed are flags of an older program, and what to do now.
var removed = map[string]string{
	"--autotune": "kernels are no longer chosen by measuring: leave it out, every machine takes its variants from one table",
}

// noneRemoved refuses flags of an older program.
func noneRemoved(args []string) error {
	for _, a := range args {
		flag, _, _ := strings.Cut(a, "=")
		if now, ok := removed[flag]; ok {
			return fmt.Errorf("%s: found a flag of an older program; %s", flag, now)
		}
	}
	return nil
}

// somePath is a path that is not empty: an empty one, as a script writes with a variable that is not set, would be the directory at hand.
func somePath(ctx *kong.DecodeContext, target reflect.Value) error {
	var path string
	if err := ctx.Scan.PopValueInto("path", &path); err != nil {
		return err
	}
	if path == "" {
		return errors.New("found nothing, wanted a path; . is the directory at hand")
	}
	target.SetString(kong.ExpandPath(path))
	return nil
}

// someModel takes an argument that names a directory, or a GGUF file in the place of one.
func someModel(ctx *kong.DecodeContext, target reflect.Value) error {
	if err := somePath(ctx, target); err != nil {
		return err
	}
	_, err := os.Stat(target.String())
	if err == nil && !modeldir.Is(target.String()) {
		err = fmt.Errorf("%q: found a file, wanted a directory, or a GGUF file", target.String())
	}
	return err
}

// haveValues refuses flags that were given with an empty list: they would count as not given.
func haveValues(ctx *kong.Context) error {
	for _, p := range ctx.Path {
		if f := p.Flag; f != nil && f.Target.Kind() == reflect.Slice && f.Target.Len() == 0 {
			return fmt.Errorf("--%s: found nothing, wanted %s", f.Name, f.FormatPlaceHolder())
		}
	}
	return nil
}
