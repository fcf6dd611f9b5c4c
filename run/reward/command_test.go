package reward

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// other is the first argument of this program where it is a command.
const other = "as-a-command"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == other {
		behave(os.Args[2], os.Args[3:])
		return
	}
	os.Exit(m.Run())
}

// behaves is the command of a behaviour.
func behaves(how string, args ...string) []string {
	return append([]string{os.Args[0], other, how}, args...)
}

// behave is what a command does: with what it reads, one line a row, unless it is hostile.
func behave(how string, args []string) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<26)
	rows := func(answer func(row map[string]any)) {
		for in.Scan() {
			row := map[string]any{}
			if err := json.Unmarshal(in.Bytes(), &row); err != nil {
				panic(err)
			}
			answer(row)
		}
	}
	say := func(text string) { _, _ = os.Stdout.WriteString(text) }
	forever := func() { time.Sleep(5 * time.Minute) }
	switch how {
	case "length": // of the completion, null for none
		rows(func(row map[string]any) {
			if row["completion"] == "" {
				say("null\n")
				return
			}
			say(fmt.Sprintln(len(row["completion"].(string))))
		})
	case "echo": // to stderr, what was read
		rows(func(row map[string]any) {
			fmt.Fprintf(os.Stderr, "%s\x1b[31m\n", in.Text())
			say("1\n")
		})
	case "say": // once, after the first row, and go on reading
		text, _ := strconv.Unquote(`"` + args[0] + `"`)
		in.Scan()
		say(text)
		rows(func(map[string]any) {})
	case "each": // for each row
		text, _ := strconv.Unquote(`"` + args[0] + `"`)
		rows(func(map[string]any) { say(text) })
	case "exit": // with a code, after so many rows
		n, _ := strconv.Atoi(args[1])
		code, _ := strconv.Atoi(args[0])
		for range n {
			in.Scan()
			say("1\n")
		}
		fmt.Fprintln(os.Stderr, "no more of this")
		os.Exit(code)
	case "silence":
		rows(func(map[string]any) {})
	case "deaf": // answers after the first row, and does not read
		in.Scan()
		say(strings.Repeat("1\n", 100))
		forever()
	case "early": // answers what is not asked
		say("7\n")
		forever()
	case "asleep":
		forever()
	case "late": // silent in the first process, by a file that it leaves
		if _, err := os.Stat(args[0]); err != nil {
			_ = os.WriteFile(args[0], nil, 0o666)
			in.Scan()
			say("5\n")
			forever()
		}
		rows(func(map[string]any) { say("2\n") })
	case "stubborn": // stays after the end of its stdin
		rows(func(map[string]any) { say("1\n") })
		forever()
	case "flood":
		in.Scan()
		for line := strings.Repeat(args[0], 1000); ; {
			say(line)
		}
	case "noise": // on stderr
		rows(func(map[string]any) {
			for range 5000 {
				_, _ = os.Stderr.WriteString(strings.Repeat("noise ", 20) + "\n")
			}
			say("1\n")
		})
	case "hush": // stdout is closed, and it stays
		os.Stdout.Close()
		forever()
	case "fork": // leaves a child with its pipes, and ends or sleeps
		child := exec.Command(os.Args[0], other, "beat", args[0])
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			panic(err)
		}
		if args[1] == "sleep" {
			forever()
		}
		time.Sleep(50 * time.Millisecond)
	case "beat": // shows in a file that it lives, for as long as a test lasts
		f, _ := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			_, _ = f.WriteString(".")
		}
	case "passes": // each: 0 where the completion is what is wanted
		text, _ := io.ReadAll(os.Stdin)
		switch string(text) {
		case "sleep":
			forever()
		case "say":
			fmt.Fprintln(os.Stderr, "what is this?")
		case "good":
			os.Exit(0)
		}
		os.Exit(3)
	default:
		panic(how)
	}
}

// said is what is logged.
type said struct {
	mu    sync.Mutex
	lines []string
}

func (s *said) line(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

func (s *said) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// asked is a command with a name and a limit, opened.
func asked(t *testing.T, limit string, command ...string) (Rewards, *said) {
	t.Helper()
	var log said
	all, err := OpenAll([]Spec{{Kind: "command", Name: "judge", Command: command, Timeout: limit}}, Env{AllowCommand: true, Log: log.line})
	require.NoError(t, err)
	t.Cleanup(func() { _ = all.Close() })
	return all, &log
}

// batch is n rows whose completions have such a length, with ids from 10 on.
func batch(n, length int) (all []Sample) {
	for i := range n {
		all = append(all, Sample{ID: int64(10 + i), Prompt: "2+2", Completion: strings.Repeat("x", length), Tokens: ids(3, 7), Columns: map[string]any{"answer": "4", "id": "of the file"}})
	}
	return all
}

// leaksNothing holds a test to the goroutines that there were.
func leaksNothing(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		after := runtime.NumGoroutine()
		for end := time.Now().Add(3 * time.Second); after > before && time.Now().Before(end); after = runtime.NumGoroutine() {
			time.Sleep(5 * time.Millisecond)
		}
		if after > before {
			stacks := make([]byte, 1<<20)
			assert.LessOrEqual(t, after, before, "%s", stacks[:runtime.Stack(stacks, true)])
		}
	})
}

func TestCommand(t *testing.T) {
	leaksNothing(t)
	all, _ := asked(t, "", behaves("length")...)
	for range 3 {
		answers, err := all.Of(t.Context(), []Sample{{Completion: "abc"}, {Completion: ""}, {Completion: "ä\n<b>"}})
		require.NoError(t, err)
		equalAnswers(t, []float64{3, nan, 6}, answers[0])
	}
	// More than pipes hold, both ways.
	answers, err := all.Of(t.Context(), batch(20000, 100))
	require.NoError(t, err)
	assert.Equal(t, 100.0, answers[0][19999])
	answers, err = all.Of(t.Context(), batch(3, 3<<20))
	require.NoError(t, err)
	assert.Equal(t, []float64{3 << 20, 3 << 20, 3 << 20}, answers[0])
	answers, err = all.Of(t.Context(), nil)
	require.NoError(t, err)
	assert.Empty(t, answers[0])
	assert.Zero(t, all.Timeouts())
	require.NoError(t, all.Close())
	_, err = all.Of(t.Context(), batch(1, 1))
	require.ErrorContains(t, err, "closed")
}

// A row has what the page says, and columns of the same names do not stand in its way; what is said is fit for a terminal.
func TestRowsOfACommand(t *testing.T) {
	all, log := asked(t, "", behaves("echo")...)
	_, err := all.Of(t.Context(), []Sample{{ID: 3, Prompt: "a<b", Completion: "é\n", Tokens: []int32{5, 6}, Truncated: true, Columns: map[string]any{"answer": json.Number("4.50"), "id": "mine", "n": nil}}})
	require.NoError(t, err)
	require.NoError(t, all.Close())
	assert.Equal(t, `reward "judge": {"answer":4.50,"completion":"é\n","completion_ids":[5,6],"id":3,"n":null,"prompt":"a<b","truncated":true}\x1b[31m`, log.all())
	_, err = all.Of(t.Context(), []Sample{{ID: 3, Columns: map[string]any{"a": math.NaN()}}})
	require.ErrorContains(t, err, "row 3: columns: json: unsupported value: NaN")
}

// A hostile command ends within its limit with an error that says what it did.
func TestHostileCommands(t *testing.T) {
	beats := filepath.Join(t.TempDir(), "beats")
	for name, c := range map[string]struct {
		command []string
		rows    int
		length  int
		says    []string
	}{
		"not a number":             {behaves("each", `abc\n`), 2, 1, []string{`row 10: found "abc", wanted a number or null`}},
		"what a terminal obeys":    {behaves("each", `\x1b]0;x\a\xff\n`), 2, 1, []string{`row 10: found "\x1b]0;x\a\xff", wanted a number or null`}},
		"an empty line":            {behaves("each", `\n`), 2, 1, []string{`row 10: found "", wanted a number or null`}},
		"two numbers":              {behaves("each", `1 2\n`), 2, 1, []string{`row 10: found "1 2"`}},
		"nan":                      {behaves("each", `nan\n`), 2, 1, []string{`row 10: found "nan", wanted a number or null`}},
		"inf":                      {behaves("each", `-Infinity\n`), 2, 1, []string{`row 10: found "-Infinity", wanted a number or null`}},
		"hexadecimal":              {behaves("each", `0x1p4\n`), 2, 1, []string{`row 10: found "0x1p4"`}},
		"underscores":              {behaves("each", `1_0\n`), 2, 1, []string{`row 10: found "1_0"`}},
		"a huge number":            {behaves("each", `1e400\n`), 2, 1, []string{`row 10: found "1e400", wanted a number that is finite in 64 bits, or null`}},
		"an object":                {behaves("each", `{\"reward\": 1}\n`), 2, 1, []string{`row 10: found`, "wanted a number or null"}},
		"the second is wrong":      {behaves("say", `1\nTrue\n`), 2, 1, []string{`row 11: found "True"`}},
		"a line too many":          {behaves("say", `1\n2\n3\n`), 2, 1, []string{"found more after 2 answers, wanted as many lines as rows"}},
		"two lines a row":          {behaves("each", `1\n2\n`), 3, 1, []string{"after 3 answers, wanted as many lines as rows"}},
		"an exit":                  {behaves("exit", "3", "2"), 5, 1, []string{"row 12: found 2 of 5 answers: it has ended (exit status 3)", `wrote last "no more of this"`, "wanted a line a row"}},
		"an exit without an error": {behaves("exit", "0", "1"), 2, 1, []string{"row 11: found 1 of 2 answers: it has ended, and wrote"}},
		"an exit at once":          {behaves("exit", "1", "0"), 2, 1 << 20, []string{"row 10: found 0 of 2 answers: it has ended (exit status 1)"}},
		"half a line":              {behaves("say", `1`), 2, 1, []string{"the time is over", "found 0 of 2 answers, twice running"}},
		"silence":                  {behaves("silence"), 2, 1, []string{"row 10: the time is over after 50ms: found 0 of 2 answers, twice running", "longer timeout"}},
		"a sleeper":                {behaves("asleep"), 2, 1 << 20, []string{"row 10: the time is over after 50ms: found 0 of 2 answers, twice running"}},
		"answers unread":           {behaves("deaf"), 100, 1 << 15, []string{"the time is over after 300ms: found 100 answers, but rows that were not read, twice running"}},
		"answers before rows":      {behaves("early"), 2, 1, []string{`row 10: found "7" before the row was written, wanted one line a row`}},
		"a flood of lines":         {behaves("flood", `1`+"\n"), 3, 1, []string{"after 3 answers, wanted as many lines as rows"}},
		"a flood without lines":    {behaves("flood", "1"), 3, 1, []string{"row 10: found a line of more than 65536 bytes"}},
		"a closed stdout":          {behaves("hush"), 2, 1, []string{"row 10: found 0 of 2 answers: its stdout is closed"}},
		"a child with the pipes":   {behaves("fork", beats, "end"), 2, 1, []string{"row 10: found 0 of 2 answers: it has ended; wanted"}},
		"a child, and a sleeper":   {behaves("fork", beats, "sleep"), 2, 1, []string{"twice running"}},
	} {
		t.Run(name, func(t *testing.T) {
			leaksNothing(t)
			limit := "20s"
			switch says := strings.Join(c.says, ""); {
			case strings.Contains(says, "found 0 of 2 answers, twice running"): // however slowly it starts
				limit = "50ms"
			case strings.Contains(says, "twice running"):
				limit = "300ms"
			}
			all, _ := asked(t, limit, c.command...)
			if name == "answers before rows" {
				time.Sleep(100 * time.Millisecond)
			}
			begin := time.Now()
			_, err := all.Of(t.Context(), batch(c.rows, c.length))
			if err == nil { // the first batch over its limit is none
				_, err = all.Of(t.Context(), batch(c.rows, c.length))
			}
			require.Error(t, err)
			assert.Less(t, time.Since(begin), 10*time.Second)
			for _, says := range append(c.says, `reward "judge": `) {
				require.ErrorContains(t, err, says)
			}
			assert.NotContains(t, err.Error(), "\n")
			assert.NotContains(t, err.Error(), "\x1b")
			assert.Less(t, len(err.Error()), 500)
			_, again := all.Of(t.Context(), batch(c.rows, c.length))
			assert.Equal(t, err.Error(), again.Error(), "it is asked no more")
		})
	}
	lives(t, beats, false)
}

// lives holds what beats in a file to whether it lives.
func lives(t *testing.T, beats string, whether bool) {
	t.Helper()
	size := func() int64 {
		info, err := os.Stat(beats)
		require.NoError(t, err)
		return info.Size()
	}
	before := size()
	time.Sleep(100 * time.Millisecond)
	assert.Equal(t, whether, size() > before)
}

// What comes after a batch is found before the next one.
func TestBetweenBatches(t *testing.T) {
	leaksNothing(t)
	all, _ := asked(t, "10s", behaves("exit", "4", "2")...)
	_, err := all.Of(t.Context(), batch(2, 1))
	require.NoError(t, err)
	_, err = all.Of(t.Context(), batch(2, 1))
	require.ErrorContains(t, err, "row 10: found 0 of 2 answers: it has ended (exit status 4)")
}

// A batch over its limit leaves rows without an answer, once; the next process answers the next batch.
func TestTimeouts(t *testing.T) {
	leaksNothing(t)
	all, log := asked(t, "1500ms", behaves("late", filepath.Join(t.TempDir(), "once"))...)
	answers, err := all.Of(t.Context(), batch(3, 1))
	require.NoError(t, err)
	equalAnswers(t, []float64{5, nan, nan}, answers[0])
	assert.EqualValues(t, 1, all.Timeouts())
	assert.Contains(t, log.all(), `reward "judge": row 11: the time is over after 1.5s: found 1 of 3 answers; it is started again`)
	for range 2 {
		answers, err = all.Of(t.Context(), batch(3, 1))
		require.NoError(t, err)
		equalAnswers(t, []float64{2, 2, 2}, answers[0])
	}
	assert.EqualValues(t, 1, all.Timeouts())
}

// What a command writes to stderr never holds it up, and is logged so far of each batch.
func TestNoise(t *testing.T) {
	all, log := asked(t, "20s", behaves("noise")...)
	for range 2 {
		_, err := all.Of(t.Context(), batch(2, 1))
		require.NoError(t, err)
	}
	require.NoError(t, all.Close())
	text := log.all()
	assert.Less(t, len(text), 6*mostSaid)
	assert.Contains(t, text, "bytes of its stderr are left out]")
}

// A run that is stopped ends the command, by the end of its stdin or by force.
func TestStopping(t *testing.T) {
	leaksNothing(t)
	for how, least := range map[string]time.Duration{"silence": 0, "asleep": closingGrace, "stubborn": closingGrace} {
		if least > 0 && testing.Short() && how == "asleep" {
			continue
		}
		all, _ := asked(t, "1h", behaves(how)...)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if how == "stubborn" {
			_, err := all.Of(t.Context(), batch(1, 1))
			require.NoError(t, err)
			begin = time.Now()
			require.NoError(t, all.Close())
		} else {
			_, err := all.Of(ctx, batch(1, 1))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		took := time.Since(begin)
		assert.True(t, least <= took && took < least+2*time.Second, "%s: %v", how, took)
		require.NoError(t, all.Close())
	}
}

func TestEach(t *testing.T) {
	leaksNothing(t)
	of := func(limit string) (Rewards, *said) {
		var log said
		f := opened(t, Spec{Kind: "each", Command: behaves("passes"), Timeout: limit, Processes: 2}, Env{AllowCommand: true, Log: log.line})
		return Rewards{{Name: "each", Function: f}}, &log
	}
	row := func(text string) Sample { return Sample{ID: 9, Completion: text} }
	all, log := of("")
	answers, err := all.Of(t.Context(), []Sample{row("good"), row("bad"), row("good"), row("say"), row(strings.Repeat("x", 1<<20))})
	require.NoError(t, err)
	equalAnswers(t, []float64{1, 0, 1, 0, 0}, answers[0])
	assert.Zero(t, all.Timeouts())
	assert.Equal(t, `reward "each": what is this?`, log.all())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = all.Of(ctx, []Sample{row("sleep"), row("sleep"), row("sleep")})
	require.ErrorIs(t, err, context.DeadlineExceeded)

	all, _ = of("300ms")
	answers, err = all.Of(t.Context(), []Sample{row("sleep"), row("sleep"), row("bad")})
	require.NoError(t, err)
	equalAnswers(t, []float64{nan, nan}, answers[0][:2])
	assert.LessOrEqual(t, int64(2), all.Timeouts())
	all, _ = of("100ms")
	_, err = all.Of(t.Context(), []Sample{row("sleep"), row("sleep")})
	require.NoError(t, err)
	_, err = all.Of(t.Context(), []Sample{row("sleep")})
	require.ErrorContains(t, err, "row 9: the time is over after 100ms, as for all rows of two batches running")
}

// What a row's command leaves behind ends with it.
func TestEachLeavesNothing(t *testing.T) {
	leaksNothing(t)
	beats := filepath.Join(t.TempDir(), "beats")
	f := opened(t, Spec{Kind: "each", Command: behaves("fork", beats, "end"), Timeout: "1m"}, Env{AllowCommand: true})
	begin := time.Now()
	answers, err := f.Rewards(t.Context(), batch(2, 1))
	require.NoError(t, err)
	assert.Equal(t, []float64{1, 1}, answers)
	assert.Less(t, time.Since(begin), 20*time.Second)
	lives(t, beats, false)
}

// Nothing but what was typed starts: the zero value refuses, whatever kind of command it is.
func TestCommandsAreTyped(t *testing.T) {
	beats := filepath.Join(t.TempDir(), "beats")
	started := 0
	for _, k := range kinds {
		if !k.starts {
			continue
		}
		started++
		_, err := OpenAll([]Spec{{Kind: k.name, Command: behaves("beat", beats)}}, Env{Log: (&said{}).line})
		require.ErrorContains(t, err, "wanted it typed: --allow-command, or --set with the rewards")
	}
	assert.Equal(t, 2, started)
	assert.NoFileExists(t, beats)
}

// A command that is opened beside a reward that cannot be is ended.
func TestOpenedInVain(t *testing.T) {
	leaksNothing(t)
	specs := []Spec{{Kind: "command", Command: behaves("silence")}, {Kind: "command", Name: "b", Command: []string{"gputrain-no-such-program"}}}
	_, err := OpenAll(specs, Env{AllowCommand: true})
	require.ErrorContains(t, err, `rewards[1]: reward "b": command "gputrain-no-such-program"`)
	specs[1] = Spec{Kind: "model", Model: "judge"}
	_, err = OpenAll(specs, Env{AllowCommand: true, Model: func(string) (Function, error) { return nil, os.ErrNotExist }})
	require.ErrorContains(t, err, `rewards[1]: reward "model": file does not exist`)
}
