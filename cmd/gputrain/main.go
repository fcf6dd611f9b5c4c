// Command gputrain trains neural networks on any GPU that speaks Vulkan,
// Metal, Direct3D 12 or OpenGL.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"reflect"
	"runtime/debug"
	"syscall"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"gputrain/hub"
	"gputrain/internal/caught"
	"gputrain/internal/ranks/mesh"
	"gputrain/internal/stranger"
	"gputrain/internal/terminal"
	"gputrain/run/runfile"
	"gputrain/run/train"
)

// cli is the command line. Documents and figures go to standard output, logs
// and progress to standard error.
type cli struct {
	Train      trainCmd      `cmd:"" help:"Train a model; the same command again resumes it."`
	Tune       tuneCmd       `cmd:"" help:"Tune a model to conversations: chooses how, says why, and trains adapters; the same command again resumes."`
	Launch     launchCmd     `cmd:"" help:"Train on several ranks, on one machine or many: start them with Open MPI's mpirun, and start them again after one has died."`
	Plan       planCmd       `cmd:"" help:"Show how a run would be cut into stages: adapters, layers, memory, expected shares of a step, schedule."`
	Compare    compareCmd    `cmd:"" help:"Train the same run with several optimizers and seeds, for a table and a picture; the same command again resumes."`
	Serve      serveCmd      `cmd:"" help:"Show runs as a live page in the browser: curves, stages, histograms, samples, settings."`
	Report     reportCmd     `cmd:"" help:"Write the report of a run from its files, also while it goes on, or after it was killed."`
	Sample     sampleCmd     `cmd:"" help:"Write text with a trained model."`
	Chat       chatCmd       `cmd:"" help:"Talk with a model, by its chat template."`
	Endpoint   endpointCmd   `cmd:"" help:"Answer OpenAI's protocol with a model, for editors and other programs on this machine."`
	Eval       evalCmd       `cmd:"" help:"Measure a model's loss on text."`
	Score      scoreCmd      `cmd:"" help:"Write what a reward model, a classifier or an embedding model says of rows."`
	Show       showModelCmd  `cmd:"" help:"Show what a GGUF file, a safetensors file or a model directory is, by its headers."`
	Distil     distilCmd     `cmd:"" help:"Write what a model thinks of rows, its likeliest tokens, for a student to learn."`
	Inspect    inspectCmd    `cmd:"" help:"Show the numbers of a checkpoint, a model directory or a safetensors file."`
	Export     exportCmd     `cmd:"" help:"Write a trained model in the Hugging Face layout, in a type of your choice."`
	Merge      mergeCmd      `cmd:"" help:"Write the model that adapters (LoRA) make of their base, whole, in the Hugging Face layout."`
	Devices    devicesCmd    `cmd:"" help:"List the adapters."`
	Doctor     doctorCmd     `cmd:"" help:"Prove the numbers on an adapter: every kernel against its twin, the golden cases, and speed."`
	Bench      benchCmd      `cmd:"" help:"Measure copy, matmul, optimizers and training."`
	Config     configCmd     `cmd:"" help:"Write a commented run file, or show where each value comes from."`
	Optimizers optimizersCmd `cmd:"" help:"List the optimizers with their parameters and defaults."`

	Tokenize tokenizeCmd `cmd:"" help:"Turn text into ids and back with the tokenizers of Hugging Face directories, and make vocabularies."`

	Data dataCmd `cmd:"" help:"Show what a run learns from its data."`

	Version    versionCmd    `cmd:"" help:"Show the version of the program, of Go and of wgpu, and the adapters."`
	Licenses   licensesCmd   `cmd:"" help:"Print the licences of the code that is linked into this program."`
	Completion completionCmd `cmd:"" help:"Print a script with which a shell completes commands, options and their values."`
	Complete   completeCmd   `cmd:"" hidden:""`
	windowCommands

	LogLevel slog.Level `help:"Lowest level of log lines on standard error: DEBUG, INFO, WARN or ERROR." default:"WARN" env:"GPUTRAIN_LOG_LEVEL"`
}

func main() {
	code := run(os.Args[1:])
	noteEnd(code)
	os.Exit(code)
}

// run is the program; it returns its exit code.
func run(args []string) (code int) {
	defer func() {
		if p := recover(); p != nil {
			code = bug(os.Stderr, os.TempDir(), p, debug.Stack())
		}
	}()
	var c cli
	parser := kong.Must(&c,
		kong.Name("gputrain"),
		kong.Description("Trains neural networks on any GPU that speaks Vulkan, Metal, Direct3D 12 or OpenGL."),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.NamedMapper("path", kong.MapperFunc(somePath)),
		kong.NamedMapper("model", kong.MapperFunc(someModel)),
	)
	var ctx *kong.Context
	err := areText(args)
	if err == nil {
		ctx, err = parser.Parse(args)
	}
	if err == nil {
		err = haveValues(ctx)
	}
	if err == nil {
		err = runfile.CheckVariables(os.Environ())
	}
	if err != nil {
		say("gputrain: %v\n", err)
		return train.KindUsage.ExitCode()
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: c.LogLevel})))
	ctx.BindTo(context.Background(), (*context.Context)(nil))
	if err := ctx.Run(); err != nil {
		tell(err)
		return exitCode(err)
	}
	return 0
}

// tell says why a command, or a part of it, has ended. What other processes have ended with, they have said.
func tell(err error) {
	var told toldError
	if errors.As(err, &told) {
		return
	}
	var p *caught.Panic
	if errors.As(err, &p) {
		bug(os.Stderr, os.TempDir(), p.Value, p.Stack)
		return
	}
	hint := ""
	if _, gone := os.Getwd(); errors.Is(gone, fs.ErrNotExist) {
		hint = "; the folder in which this command was started is gone, so relative paths lead nowhere"
	}
	say("gputrain: %v%s\n", err, hint)
}

// told is standard error for lines in which there may be what files of strangers say. A Write is a message.
var told io.Writer = terminal.Writer{To: os.Stderr}

// say tells a line.
func say(format string, args ...any) { fmt.Fprintf(told, format, args...) }

// bug tells of a panic in few words, and puts the stack where it can be taken from.
func bug(w io.Writer, dir string, p any, stack []byte) int {
	where := "the stack below"
	f, err := os.CreateTemp(dir, "gputrain-panic-*.txt")
	if err == nil {
		_, err = fmt.Fprintf(f, "%v\n\n%s", p, stack)
		err = errors.Join(err, f.Close())
		where = f.Name()
	}
	fmt.Fprintf(w, "gputrain: a bug of gputrain: %v\ngputrain: a run goes on from its newest checkpoint; please report this where you have gputrain from, with the command and %s\n", p, where)
	if err != nil {
		fmt.Fprintf(w, "%s", stack)
	}
	return train.KindBug.ExitCode()
}

// A usageError is a mistake on the command line or in the run file.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Is says that it is one.
func (e usageError) Is(target error) bool { return target == train.ErrUsage }

// exitCode is the code of an error: that of another process where it has ended this one, else that of its kind.
func exitCode(err error) int {
	var code codeError
	var peer *mesh.PeerError
	var signalled *train.SignalError
	kind := train.KindOf(err)
	switch {
	case errors.As(err, &peer):
		return peer.Code
	case errors.As(err, &code):
		return int(code)
	case kind == train.KindStopped && errors.As(err, &signalled) && signalled.Signal == syscall.SIGTERM && launched(): // mpirun ends what is left of a job
		kind = train.KindRankLost
	}
	return kind.ExitCode()
}

// areText refuses arguments that are not UTF-8: on their way to a value other bytes would take the place of theirs.
func areText(args []string) error {
	for _, a := range args {
		if !utf8.ValidString(a) {
			return fmt.Errorf("argument %q: found bytes that are not UTF-8, wanted text; a pattern such as a?.txt names a file whose name is not", a)
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
	given, _ := ctx.Scan.Peek().Value.(string)
	if err := somePath(ctx, target); err != nil {
		return err
	}
	return isModel(target.String(), given)
}

// isModel refuses a path that is neither a directory nor a GGUF file.
func isModel(path, given string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w%s", err, hub.Download(given))
	}
	if err == nil && !hub.Is(path) {
		err = fmt.Errorf("%q: found %s, wanted a directory, or a GGUF file", path, stranger.Kind(info))
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
