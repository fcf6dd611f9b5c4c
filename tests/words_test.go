package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mostWords is how many words of its own a reader can be asked to keep in mind.
const mostWords = 25

var wordRow = regexp.MustCompile(`(?m)^\| ([a-z]+) \| (.+) \|$`)

// glossary is the words that ARCHITECTURE.md explains.
func glossary(t *testing.T) []string {
	text, err := os.ReadFile("../ARCHITECTURE.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Words\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var all []string
	for _, row := range wordRow.FindAllStringSubmatch(section, -1) {
		if row[1] != "word" {
			all = append(all, row[1])
		}
	}
	return all
}

// declarers are the folders of packages that train, by the names in small letters that each declares for all of itself.
func declarers(t *testing.T) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, layer := range layers {
		if layer == "cmd" || layer == "internal" {
			continue
		}
		require.NoError(t, filepath.WalkDir(filepath.Join("..", layer), func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			name := func(parts ...string) {
				if word := strings.ToLower(parts[0]); len(parts) == 1 {
					if all[word] == nil {
						all[word] = map[string]bool{}
					}
					all[word][strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")] = true
				}
			}
			for _, d := range file.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Recv == nil {
						name(d.Name.Name)
					}
				case *ast.GenDecl:
					for _, s := range d.Specs {
						declare(s, name)
					}
				}
			}
			return nil
		}))
	}
	return all
}

// A word of the list has one meaning: of the packages that train, one at most declares it.
func TestAWordMeansOneThing(t *testing.T) {
	all := glossary(t)
	require.Greater(t, len(all), 15)
	require.LessOrEqual(t, len(all), mostWords)
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(all))), len(all), "a word twice")
	packages := declarers(t)
	require.Equal(t, map[string]bool{"state": true}, packages["updater"])
	for _, word := range all {
		assert.LessOrEqual(t, len(packages[word]), 1, "%s: declared in %s", word, strings.Join(slices.Sorted(maps.Keys(packages[word])), ", "))
	}
}
