package tests

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/model"
	"gputrain/run/runfile"
)

// declared is what the Go files of this module declare: "train.Config", "train.Config.Steps", "train.TestRun", by the name of the folder.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 || d.Name() == "tools") {
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Abs(filepath.Dir(path))
		name := func(parts ...string) { names[filepath.Base(dir)+"."+strings.Join(parts, ".")] = true }
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					name(d.Name.Name)
				} else {
					name(receiver(d), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					declare(s, name)
				}
			}
		}
		return err
	}))
	return names
}

// receiver is the name of the type that a method is of.
func receiver(d *ast.FuncDecl) string {
	of := d.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	return of.(*ast.Ident).Name
}

func declare(s ast.Spec, name func(...string)) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			name(n.Name)
		}
	case *ast.TypeSpec:
		name(s.Name.Name)
		if fields, ok := s.Type.(*ast.StructType); ok {
			for _, f := range fields.Fields.List {
				for _, n := range f.Names {
					name(s.Name.Name, n.Name)
				}
			}
		}
	}
}

var (
	inBackticks = regexp.MustCompile("`[^`]+`")
	goName      = regexp.MustCompile(`\b[a-z][a-z0-9]*\.[A-Z]\w*(\.[A-Z]\w*)?`)
	runKey      = regexp.MustCompile(`\b(model|lora|data|preference|distil|optimizer|train|pipeline|device|cluster)\.[a-z_]+(\.[a-z_]+)*\b`)
	subcommand  = regexp.MustCompile("`gputrain ([a-z]+)")
	keyDefault  = regexp.MustCompile("\\| `([a-z]+\\.[a-z_.]+)` \\| `([^`]*)`[^`|]*")
	trainerRow  = regexp.MustCompile("(?m)^\\| `(\\w*Trainer)` \\| ([^|]+) \\|$")
	rowID       = regexp.MustCompile(`(?m)^\| ([SCTLMPDR]\d+) \|`)
)

// drawnOrPreferred is what stands behind the key of an objective.
func drawnOrPreferred(row string) (losses string, ok bool) {
	for _, key := range []string{"`preference.loss` of ", "`rollout.loss` of "} {
		if losses, ok = strings.CutPrefix(row, key); ok {
			break
		}
	}
	return losses, ok
}

// easydelTrainers are the classes of its __init__.py, but for BaseTrainer and RayDistributedTrainer.
var easydelTrainers = strings.Fields(`AgenticMoshPitTrainer BCOTrainer CPOTrainer DPOTrainer DistillationTrainer EmbeddingTrainer GFPOTrainer GKDTrainer GRPOTrainer
	GSPOTrainer KTOTrainer NashMDTrainer ORPOTrainer OnPolicyDistillationTrainer PPOTrainer RLVRTrainer RewardTrainer SDPOTrainer SFTTrainer SeqKDTrainer
	SparseDistillationTrainer Trainer XPOTrainer`)

// The page has a row for each trainer of EasyDeL: a key, a command or a name of ours, which TestComingFromEasyDeL looks for, or why it is not here. What stands behind
// "of" is an objective of preference.loss or rollout.loss.
func TestEveryTrainerOfEasyDeL(t *testing.T) {
	text := read(t, filepath.Join("..", "docs", "coming-from-easydel.md"))
	var found []string
	named := regexp.MustCompile("`(gputrain [a-z]+|[a-z]+\\.[A-Za-z_]+)`|^not here|^likewise|any: `")
	for _, m := range trainerRow.FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
		assert.Regexp(t, named, m[2], m[1])
		if losses, ok := drawnOrPreferred(m[2]); ok {
			for _, quoted := range inBackticks.FindAllString(losses, -1) {
				if name := strings.Trim(quoted, "`"); !strings.Contains(name, ".") {
					assert.Contains(t, model.Objectives(), name, m[1])
				}
			}
		}
	}
	slices.Sort(found)
	assert.Equal(t, easydelTrainers, found)
}

// What docs/coming-from-easydel.md names is there: tests, Go names, commands and keys of the run file, with their defaults. Every row is there once, and those
// of defects and wishes name the test that holds them.
func TestComingFromEasyDeL(t *testing.T) {
	text := read(t, filepath.Join("..", "docs", "coming-from-easydel.md"))
	names, keys := declared(t), keysOf(reflect.TypeFor[runfile.Run](), "")
	tests := 0
	for _, quoted := range inBackticks.FindAllString(text, -1) {
		for _, name := range goName.FindAllString(quoted, -1) {
			assert.True(t, names[name], "%s is not there", name)
			if strings.Contains(name, ".Test") || strings.Contains(name, ".Fuzz") {
				tests++
			}
		}
		for _, key := range runKey.FindAllString(quoted, -1) {
			if !strings.HasSuffix(key, ".safetensors") && !strings.Contains(quoted, "easydel-") {
				assert.Contains(t, keys, key)
			}
		}
	}
	assert.Greater(t, tests, 80)
	commands := read(t, filepath.Join("..", "docs", "command-line.md"))
	for _, m := range subcommand.FindAllStringSubmatch(text, -1) {
		assert.Contains(t, commands, "| `gputrain "+m[1], m[1])
	}
	_, arguments, _ := strings.Cut(text, "| there | default | here | default |\n")
	arguments, _, _ = strings.Cut(arguments, "\n\n")
	defaults := map[string]string{}
	for _, m := range keyDefault.FindAllStringSubmatch(read(t, filepath.Join("..", "docs", "run-file.md")), -1) { // which its tags are compared with
		defaults[m[1]] = m[2]
	}
	rows := strings.Split(arguments, "\n")[1:]
	assert.Greater(t, len(rows), 40)
	for _, row := range rows {
		m := keyDefault.FindStringSubmatch(row)
		if assert.NotNil(t, m, row) {
			assert.Equal(t, defaults[m[1]], m[2], row)
		}
	}

	ids := map[string]int{}
	for _, m := range rowID.FindAllStringSubmatch(text, -1) {
		ids[m[1]]++
	}
	for list, last := range map[string]int{"S": 18, "C": 19, "T": 20, "L": 22, "M": 12, "P": 10, "D": 22, "R": 22} {
		for n := 1; n <= last; n++ {
			id := fmt.Sprintf("%s%d", list, n)
			wanted := 1
			if list == "R" && !slices.Contains([]int{1, 4, 5, 7, 12, 13, 17, 19, 22}, n) { // the others stand in other lists
				wanted = 0
			}
			assert.Equal(t, wanted, ids[id], id)
		}
	}
	for line := range strings.Lines(text) {
		if m := rowID.FindStringSubmatch(line); m != nil && strings.ContainsAny(m[1][:1], "DR") {
			assert.Regexp(t, "`[a-z]+\\.(Test|Fuzz)", line)
		}
	}
}
