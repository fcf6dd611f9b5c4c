package shaders

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func run(t *testing.T, v Variant, main string, shared ...string) (string, error) {
	t.Helper()
	files := fstest.MapFS{"main.wgsl": {Data: []byte(main)}}
	for i, s := range shared {
		files["shared/"+string(rune('a'+i))+".wgsl"] = &fstest.MapFile{Data: []byte(s)}
	}
	return (&library{files: files}).process("main.wgsl", v)
}

func TestDirectives(t *testing.T) {
	cases := []struct {
		name, source string
		v            Variant
		want         string
	}{
		{"plain", "a\n  b\n", Variant{}, "a\n  b\n"},
		{"empty file", "", Variant{}, "\n"},
		{"if taken", "#if F\na\n#else\nb\n#endif\n", Variant{Flags: map[string]bool{"F": true}}, "a\n"},
		{"else taken", "#if F\na\n#else\nb\n#endif\n", Variant{Flags: map[string]bool{"F": false}}, "b\n"},
		{"negated", "#if !F\na\n#endif\nc\n", Variant{Flags: map[string]bool{"F": false}}, "a\nc\n"},
		{"nested", "#if F\n#if G\na\n#else\nb\n#endif\n#endif\n", Variant{Flags: map[string]bool{"F": true, "G": false}}, "b\n"},
		{"comment behind a directive", "  #if F // why\na\n  #endif // F\n", Variant{Flags: map[string]bool{"F": true}}, "a\n"},
		{"constant", "x = {{N}} + {{ N }};", Variant{Constants: map[string]string{"N": "4"}}, "x = 4 + 4;\n"},
		{
			"bindings", "#if F\n@bind a\n#endif\n@bind {{B}}\n@bind c",
			Variant{Flags: map[string]bool{"F": false}, Constants: map[string]string{"B": "b\n@bind d"}},
			"@group(0) @binding(0) b\n@group(0) @binding(1) d\n@group(0) @binding(2) c\n",
		},
		{"constant of lines", "{{BODY}}\nend", Variant{Constants: map[string]string{"BODY": "a;\nb;"}}, "a;\nb;\nend\n"},
		{"constant in a constant", "{{B}}", Variant{Constants: map[string]string{"B": "f({{N}})", "N": "2"}}, "f(2)\n"},
		{"constant in a branch not taken", "#if F\n{{N}}\n#endif\nx", Variant{Flags: map[string]bool{"F": false}}, "x\n"},
		{"for", "#for I in 1..3\na{{I}}\n#end\n", Variant{}, "a1\na2\n"},
		{"for nested", "#for I in 0..2\n#for J in 0..2\na{{I}}{{J}}\n#end\n#end\n", Variant{}, "a00\na01\na10\na11\n"},
		{"for inner bound", "#for I in 0..3\n#for J in 0..{{I}}\n{{I}}{{J}}\n#end\n#end\n", Variant{}, "10\n20\n21\n"},
		{"for of a constant", "#for I in 0..N\n{{I}}\n#end\n", Variant{Constants: map[string]string{"N": "2"}}, "0\n1\n"},
		{"for of nothing", "#for I in 2..2\n{{I}}\n#end\nx", Variant{}, "x\n"},
		{"loop variable in a constant", "#for I in 0..2\n{{B}}\n#end", Variant{Constants: map[string]string{"B": "x{{I}}"}}, "x0\nx1\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := run(t, c.v, c.source)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestImport(t *testing.T) {
	got, err := run(t, Variant{Constants: map[string]string{"N": "7"}},
		"#import \"shared/a.wgsl\"\n#import \"shared/b.wgsl\"\nmain {{N}}",
		"fn a() {}", "#import \"shared/a.wgsl\"\nfn b() { {{N}} }")
	require.NoError(t, err)
	require.Equal(t, "fn a() {}\nfn b() { 7 }\nmain 7\n", got)
}

// TestImportWithNames: a file is there once for each set of names, which hold in it alone, and may be constants and loop variables of the importer.
func TestImportWithNames(t *testing.T) {
	got, err := run(t, Variant{Constants: map[string]string{"N": "7"}, Flags: map[string]bool{"F": true}},
		"#import \"shared/a.wgsl\" FN=f FROM={{N}}\n#for I in 0..2\n#import \"shared/a.wgsl\" FN=g{{I}} FROM=x // twice\n#end\n#import \"shared/a.wgsl\" FN=f FROM=7\n",
		"fn {{FN}} {\n#if F\n{{FROM}} {{N}}\n#endif\n}")
	require.NoError(t, err)
	require.Equal(t, "fn f {\n7 7\n}\nfn g0 {\nx 7\n}\nfn g1 {\nx 7\n}\n", got)
}

func TestErrorsNameFileAndLine(t *testing.T) {
	flag := Variant{Flags: map[string]bool{"F": true}}
	cases := []struct {
		name, source string
		v            Variant
		want         string
	}{
		{"unknown directive", "a\n#define X\n", Variant{}, `main.wgsl:2: unknown directive "#define X"`},
		{"import form", "#import shared/a.wgsl\n", Variant{}, "main.wgsl:1: unknown directive"},
		{"unknown flag", "\n#if G\n#endif\n", Variant{}, "main.wgsl:2: unknown flag G"},
		{"unknown constant", "a\nb {{N}}\n", Variant{}, "main.wgsl:2: unknown constant N"},
		{"unknown bound", "#for I in 0..N\n#end\n", Variant{}, "main.wgsl:1: unknown constant N"},
		{"bound not an integer", "#for I in 0..N\n#end\n", Variant{Constants: map[string]string{"N": "2.5"}}, `main.wgsl:1: bound N is "2.5"`},
		{"bad placeholder", "{{a+1}}", Variant{}, "main.wgsl:1: "},
		{"if without end", "#if F\na\n", flag, `main.wgsl:1: #if F ends with ""`},
		{"two elses", "#if F\n#else\n#else\n#endif\n", flag, `main.wgsl:1: #if F ends with "#else"`},
		{"for ends as if", "#for I in 0..2\n#endif\n", Variant{}, `main.wgsl:1: #for I ends with "#endif"`},
		{"end alone", "a\n#end\n", Variant{}, "main.wgsl:2: #end without its beginning"},
		{"same loop variable", "#for I in 0..2\n#for I in 0..2\n#end\n#end", Variant{}, "main.wgsl:2: I is the variable"},
		{"endless", "#for I in 0..1000000\n#end", Variant{}, "main.wgsl:1: 1000000 iterations"},
		{"no such import", "\n#import \"shared/zz.wgsl\"\n", Variant{}, `main.wgsl:2: import: no file "shared/zz.wgsl"`},
		{"name that an import has not", "\n#import \"shared/a.wgsl\" Q=1 R=2\n", Variant{}, `main.wgsl:2: import: "shared/a.wgsl" has no {{R}}`},
		{"name outside of its import", "#import \"shared/a.wgsl\" Q=1\n{{Q}}\n", Variant{}, "main.wgsl:2: unknown constant Q"},
		{"name for a constant", "#import \"shared/a.wgsl\" Q=1\n", Variant{Constants: map[string]string{"Q": "2"}}, "main.wgsl: constant Q given, but never used"},
		{"in an import", "#import \"shared/a.wgsl\"\n", Variant{}, "shared/a.wgsl:2: unknown constant Q"},
		{"unused flag", "a\n", flag, "main.wgsl: flag F given, but never used"},
		{"unused constant", "a\n", Variant{Constants: map[string]string{"N": "1"}}, "main.wgsl: constant N given, but never used"},
		{"constants in a ring", "{{A}}", Variant{Constants: map[string]string{"A": "{{B}}", "B": "{{A}}"}}, "main.wgsl:1: constants that hold each other"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := run(t, c.v, c.source, "fn a() {}\n{{Q}}\n")
			require.ErrorContains(t, err, "shaders: ")
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestNoSuchFile(t *testing.T) {
	_, err := Source("no_such.wgsl", Variant{})
	require.ErrorContains(t, err, `no file "no_such.wgsl"`)
}

func TestSharedFilesParse(t *testing.T) {
	got, err := Source("shared/grid.wgsl", Variant{})
	require.NoError(t, err)
	require.Contains(t, got, "fn grid_index(")
}
