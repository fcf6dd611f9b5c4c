package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"gputrain/internal/stranger"
)

// Fingerprint is a hash of what [Open] reads for the same names, in hexadecimal.
func Fingerprint(files stranger.Files, what string) (string, error) {
	sum := sha256.New()
	read := func(name string, raw []byte, err error) error {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("chat: open %q: %w", files.Path("."), err)
		}
		fmt.Fprintf(sum, "%q %d\n%s\n", name, len(raw), raw)
		return nil
	}
	if strings.HasSuffix(what, ".jinja") {
		raw, err := stranger.ReadNamed(what)
		if err != nil {
			return "", fmt.Errorf("chat: %w", err)
		}
		_ = read("", raw, nil) // there is no error
	} else {
		fmt.Fprintf(sum, "%q %q\n", what, builtIn[what])
	}
	names := []string{File, "tokenizer_config.json", "special_tokens_map.json", "chat_template.json"}
	more, err := additional(files)
	if err != nil {
		return "", fmt.Errorf("chat: open %q: %w", files.Path("."), err)
	}
	for _, name := range more {
		names = append(names, path.Join(folder, name))
	}
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err := read(name, raw, err); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
