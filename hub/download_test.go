package hub

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What may be a name of the hub is told how to come by; a path below a directory that is there is none.
func TestDownload(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("runs", 0o777))
	here, err := os.Getwd()
	require.NoError(t, err)
	const how = "; if it is a name on Hugging Face's hub: hf download Qwen/Qwen3-0.6B --local-dir models/Qwen3-0.6B, and name models/Qwen3-0.6B"
	for at, want := range map[string]string{
		"Qwen/Qwen3-0.6B": how, filepath.Join(here, "Qwen", "Qwen3-0.6B"): how,
		"https://huggingface.co/Qwen/Qwen3-0.6B": how, "https://hf.co/Qwen/Qwen3-0.6B/": how, "hf://Qwen/Qwen3-0.6B": how,
		"runs/lost": "", "Qwen3-0.6B": "", "./Qwen/Qwen3": "", "../Qwen/Qwen3": "", "~/Qwen": "", "a/b/c": "", "/no/where": "", "": "", "https://example.com/a": "",
		"$(id)/x": "", "a b/c": "",
	} {
		assert.Equal(t, want, Download(at), at)
	}
	const data = "; if it is a name on Hugging Face's hub: hf download openai/gsm8k --repo-type dataset --local-dir data/gsm8k, and name data/gsm8k"
	for at, want := range map[string]string{"openai/gsm8k": data, "https://huggingface.co/datasets/openai/gsm8k": data, "runs/lost": ""} {
		assert.Equal(t, want, DownloadData(at), at)
	}
}
