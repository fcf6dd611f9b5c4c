package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"gputrain/run/data/texts"
	"gputrain/run/setup"
	"gputrain/text/tokenizer"
)

type tokenizeCmd struct {
	Encode encodeCmd        `cmd:"" help:"Turn text into ids."`
	Decode decodeCmd        `cmd:"" help:"Turn ids into text."`
	Train  trainTokenizeCmd `cmd:"" help:"Make a byte-level vocabulary from texts."`
	Show   showCmd          `cmd:"" help:"Show what a tokenizer is, and how it cuts a text."`
}

// tokenizerFlags name a tokenizer and a text.
type tokenizerFlags struct {
	Tokenizer string `arg:"" help:"A directory with tokenizer.json or tokenizer.model, one of these files, or a GGUF file." type:"path" placeholder:"TOKENIZER"`
	Text      string `help:"The file to read; standard input without it." type:"path" placeholder:"FILE"`
}

// open opens the tokenizer, and the text, as a file or standard input.
func (f *tokenizerFlags) open() (*tokenizer.Tokenizer, *os.File, error) {
	t, err := setup.OpenTokenizer(f.Tokenizer)
	if err != nil {
		return nil, nil, usageError{err}
	}
	if f.Text == "" {
		return t, os.Stdin, nil
	}
	in, err := openText(f.Text)
	return t, in, err
}

// openText opens a file or a pipe; a device may never end.
func openText(name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err == nil && info.Mode().Type()&^fs.ModeNamedPipe != 0 {
		what := "a device"
		if info.IsDir() {
			what = "a directory"
		}
		err = fmt.Errorf("tokenize: text %q: is %s, want a file", name, what)
	}
	if err != nil {
		return nil, usageError{err}
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, usageError{err}
	}
	if info.Mode().IsRegular() {
		head := make([]byte, 512)
		n, _ := file.ReadAt(head, 0) // whoever reads on says what is wrong
		if what := texts.Foreign(name, head[:n]); what != "" {
			return nil, usageError{errors.Join(fmt.Errorf("tokenize: text %q: %s", name, what), file.Close())}
		}
	}
	return file, nil
}

type encodeCmd struct {
	tokenizerFlags
	Special bool   `help:"Add the tokens that the tokenizer puts around a text, such as <s>."`
	Lines   bool   `help:"Make every line, without its newline, a text of its own."`
	JSON    bool   `help:"Arrays of ids, one a line; a long text is several arrays in order."`
	As      string `help:"Write ids as training reads them (data.tokens): u16 or u32, little-endian." enum:",u16,u32" default:"" placeholder:"TYPE"`
}

func (c *encodeCmd) Run(ctx context.Context) error {
	if c.JSON && c.As != "" {
		return usageError{fmt.Errorf("tokenize: found --json and --as %s, wanted one of them", c.As)}
	}
	t, in, err := c.open()
	if err != nil {
		return err
	}
	defer in.Close()
	out := bufio.NewWriterSize(os.Stdout, 1<<16)
	w := idWriter{out: out, json: c.JSON, as: c.As, alone: c.Lines}
	if c.Lines {
		err = eachLine(in, func(number int, line string) error {
			ids, err := t.Encode(line, tokenizer.Options{Special: c.Special})
			if err != nil {
				return fmt.Errorf("line %d: %w", number, err)
			}
			return w.write(ids)
		})
	} else {
		err = t.EncodeReader(ctx, in, tokenizer.Options{Special: c.Special, Progress: toldBytes("tokenize: read")}, w.write)
		if err == nil {
			err = w.end()
		}
	}
	if err != nil && c.Text != "" && out.Flush() == nil {
		err = fmt.Errorf("tokenize: text %q: %w", c.Text, err)
	}
	return flushed(out, err)
}

// flushed writes what is left to write, and joins why that fails to an error, unless it is that error.
func flushed(out *bufio.Writer, err error) error {
	if failed := out.Flush(); !errors.Is(err, failed) {
		return errors.Join(err, failed)
	}
	return err
}

// idWriter writes ids: as arrays, with spaces between them, or as numbers of two or four bytes.
type idWriter struct {
	out   *bufio.Writer
	json  bool
	as    string // u16 or u32
	alone bool   // each call is a line
	begun bool
	ids   []byte
}

func (w *idWriter) write(ids []int32) error {
	if w.as != "" {
		return w.writeNumbers(ids)
	}
	b := w.ids[:0]
	separator := byte(' ')
	if w.json {
		b, separator = append(b, '['), ','
	}
	for i, id := range ids {
		if i > 0 || w.begun && !w.json {
			b = append(b, separator)
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	if w.json {
		b = append(b, ']')
	}
	if w.json || w.alone {
		b = append(b, '\n')
	}
	w.ids, w.begun = b, !w.alone
	_, err := w.out.Write(b)
	return err
}

func (w *idWriter) writeNumbers(ids []int32) error {
	b := w.ids[:0]
	for _, id := range ids {
		switch {
		case w.as == "u32":
			b = binary.LittleEndian.AppendUint32(b, uint32(id))
		case id > math.MaxUint16:
			return usageError{fmt.Errorf("tokenize: id %d: found one beyond u16, wanted at most %d: use --as u32", id, math.MaxUint16)}
		default:
			b = binary.LittleEndian.AppendUint16(b, uint16(id))
		}
	}
	w.ids = b
	_, err := w.out.Write(b)
	return err
}

// end ends the one line of a text; of one without a token it is empty.
func (w *idWriter) end() error {
	switch {
	case w.as != "":
	case !w.json:
		return w.out.WriteByte('\n')
	case !w.begun:
		return w.write(nil)
	}
	return nil
}

// longestLine is how long a line may be that is a text of its own.
const longestLine = 64 << 20

// eachLine visits lines, by their numbers, without the newline or the carriage return and newline that end them.
func eachLine(in io.Reader, visit func(number int, line string) error) error {
	s := bufio.NewScanner(in)
	s.Buffer(nil, longestLine)
	number := 0
	for s.Scan() {
		number++
		if err := visit(number, s.Text()); err != nil {
			return err
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return usageError{fmt.Errorf("tokenize: line %d: found more than %d bytes, wanted less: without --lines a text is read in parts", number+1, longestLine)}
	}
	return s.Err()
}

// toldBytes says every two seconds how far a long text has been read, if somebody is there to see.
func toldBytes(what string) func(read int64) {
	begun := time.Now()
	told := begun
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	return func(read int64) {
		if now := time.Now(); now.Sub(told) > 2*time.Second {
			told = now
			fmt.Fprintf(os.Stderr, "%s %d MB, %.1f MB/s\n", what, read/1e6, float64(read)/1e6/now.Sub(begun).Seconds())
		}
	}
}

type decodeCmd struct {
	tokenizerFlags
	SkipSpecial bool `help:"Leave out special tokens."`
	Lines       bool `help:"Make every line of ids a text of its own."`
	JSON        bool `help:"Texts as JSON, one a line."`
}

func (c *decodeCmd) Run() error {
	t, in, err := c.open()
	if err != nil {
		return err
	}
	defer in.Close()
	out := bufio.NewWriterSize(screen(), 1<<16)
	one := t.NewStream(c.SkipSpecial)
	var whole strings.Builder
	if c.Lines {
		err = eachLine(in, func(number int, line string) error { return c.line(t, number, line, out) })
	} else {
		err = eachID(in, 1, func(id int32) error {
			text, err := one.Next(id)
			switch {
			case err != nil:
			case c.JSON:
				whole.WriteString(text)
			default:
				_, err = out.WriteString(text)
			}
			return err
		})
	}
	end := ""
	if err == nil && !c.Lines {
		end, err = one.End()
	}
	switch {
	case err != nil || c.Lines:
	case c.JSON:
		err = c.write(out, whole.String()+end)
	default:
		_, err = out.WriteString(end)
	}
	return flushed(out, err)
}

// line decodes a line of ids.
func (c *decodeCmd) line(t *tokenizer.Tokenizer, number int, line string, out io.Writer) error {
	var ids []int32
	err := eachID(strings.NewReader(line), number, func(id int32) error {
		ids = append(ids, id)
		return nil
	})
	if err != nil {
		return err
	}
	text, err := t.Decode(ids, c.SkipSpecial)
	if err != nil {
		return fmt.Errorf("line %d: %w", number, err)
	}
	return c.write(out, text)
}

// eachID visits ids, from a line on.
func eachID(in io.Reader, line int, visit func(id int32) error) error {
	r := idReader{in: bufio.NewReader(in), line: line}
	for {
		id, err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errIDs):
			return usageError{fmt.Errorf("tokenize: decode: %w", err)}
		case err != nil:
			return err
		}
		if err := visit(id); err != nil {
			return err
		}
	}
}

func (c *decodeCmd) write(out io.Writer, text string) error {
	if !c.JSON {
		_, err := fmt.Fprintln(out, text)
		return err
	}
	return writeJSON(out, text)
}

// writeJSON writes a line of JSON with texts as they are.
func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
