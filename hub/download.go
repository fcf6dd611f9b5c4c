package hub

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// onHub is the form of names on Hugging Face's hub.
var onHub = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[\w.-]+$`)

// isHubName tells whether a name has the form of a model's on Hugging Face's hub.
func isHubName(name string) bool { return onHub.MatchString(name) }

// hubs begin the addresses of models on the hub.
var hubs = []string{"https://huggingface.co/", "https://hf.co/", "hf://"}

// Download goes on from an error about a path that is not there: where it may be a name of the hub, it says how to get the model. Else it is "".
func Download(at string) string { return download(at, "", "models") }

// DownloadData is Download for a data set.
func DownloadData(at string) string { return download(at, " --repo-type dataset", "data") }

func download(at, flags, below string) string {
	name, link := at, false
	for _, hub := range hubs {
		if rest, ok := strings.CutPrefix(at, hub); ok {
			name, link = strings.Trim(strings.TrimPrefix(rest, "datasets/"), "/"), true
		}
	}
	if here, err := os.Getwd(); err == nil && filepath.IsAbs(name) {
		if rel, err := filepath.Rel(here, name); err == nil {
			name = filepath.ToSlash(rel)
		}
	}
	if !isHubName(name) {
		return ""
	}
	if _, err := os.Stat(filepath.Dir(name)); err == nil && !link { // a directory of this machine, and a mistake in what is below it
		return ""
	}
	to := path.Join(below, path.Base(name))
	return fmt.Sprintf("; if it is a name on Hugging Face's hub: hf download %s%s --local-dir %s, and name %s", name, flags, to, to)
}
