package checkpoint

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gputrain/internal/stranger"
)

// manifestName is the file written last: a directory with a manifest that agrees with its files is a whole checkpoint.
const manifestName = "manifest.json"

func manifestPath(dir string) string { return filepath.Join(dir, manifestName) }

// manifestFormat is the version of manifest.json that this program writes and reads.
const manifestFormat = 1

// manifest lists what a checkpoint consists of.
type manifest struct {
	Format int                     `json:"format"`
	Step   int64                   `json:"step"`
	Files  map[string]manifestFile `json:"files"`
}

// manifestFile is one file's length and checksums.
type manifestFile struct {
	Bytes   int64               `json:"bytes"`
	CRC32C  checksum            `json:"crc32c"`
	Tensors map[string]checksum `json:"tensors,omitempty"` // of a safetensors file, by tensor name
}

func isSafetensors(name string) bool { return strings.HasSuffix(name, ".safetensors") }

// decodeManifest reads dir/manifest.json, whatever it says.
func decodeManifest(fsys FileSystem, dir string) (manifest, error) {
	data, err := readFile(fsys, manifestPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := fsys.ReadDir(dir); gone != nil {
			return manifest{}, loadError(dir, "%w", gone)
		}
		return manifest{}, loadError(dir, "%s: not there: %w", manifestName, ErrCorrupt)
	}
	if err != nil {
		return manifest{}, loadError(dir, "%w", err)
	}
	var m manifest
	if err := stranger.JSON(data, &m); err != nil {
		return manifest{}, loadError(dir, "%s: %v: %w", manifestName, err, ErrCorrupt)
	}
	return m, nil
}

// readManifest reads dir/manifest.json and compares the sizes of the files it lists; their contents are not read.
func readManifest(fsys FileSystem, dir string) (manifest, error) {
	m, err := decodeManifest(fsys, dir)
	if err != nil {
		return manifest{}, err
	}
	if m.Format != manifestFormat {
		return manifest{}, loadError(dir, "%s: format %d, want %d: %w", manifestName, m.Format, manifestFormat, ErrVersion)
	}
	base, _ := leftOf(filepath.Base(dir))
	if step, named := stepOf(base); named && step != m.Step {
		return manifest{}, loadError(dir, "%s: step %d, the directory's name says %d: renamed, or a copy of another: %w", manifestName, m.Step, step, ErrCorrupt)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		if name != filepath.Base(name) {
			return manifest{}, loadError(dir, "%s: file %q is not inside the checkpoint: %w", manifestName, name, ErrCorrupt)
		}
		size, err := fsys.Size(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return manifest{}, loadError(dir, "%s: not there: %w", name, ErrCorrupt)
		}
		if err != nil {
			return manifest{}, loadError(dir, "%w", err)
		}
		if want := m.Files[name].Bytes; size != want {
			return manifest{}, loadError(dir, "%s: %d bytes, want %d: %w", name, size, want, ErrCorrupt)
		}
	}
	return m, nil
}

// Fingerprint tells a checkpoint from any other, by what its manifest says of it.
func Fingerprint(fsys FileSystem, dir string) (string, error) {
	data, err := readFile(fsys, manifestPath(dir))
	if err != nil {
		return "", loadError(dir, "%w", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data)), nil
}

// Verify reads the whole checkpoint in dir and compares every file and tensor with the manifest. The error wraps ErrCorrupt and names
// the first tensor, or else the first file, that differs.
func Verify(fsys FileSystem, dir string) error {
	m, err := readManifest(fsys, dir)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		want := m.Files[name]
		found, err := sumFile(fsys, filepath.Join(dir, name))
		if err != nil {
			return loadError(dir, "%s: %w", name, err)
		}
		if found.CRC32C == want.CRC32C {
			continue
		}
		for _, tensor := range slices.Sorted(maps.Keys(want.Tensors)) {
			if f, w := found.Tensors[tensor], want.Tensors[tensor]; f != w {
				return loadError(dir, "%s: tensor %q: crc32c %s, want %s: %w", name, tensor, f, w, ErrCorrupt)
			}
		}
		return loadError(dir, "%s: crc32c %s, want %s: %w", name, found.CRC32C, want.CRC32C, ErrCorrupt)
	}
	return nil
}

// VerifyModel is Verify of a checkpoint; any other directory, which has no manifest, passes, and so does a file.
func VerifyModel(fsys FileSystem, dir string) error {
	_, file := fsys.Size(dir)
	if _, err := fsys.Size(manifestPath(dir)); errors.Is(err, fs.ErrNotExist) || file == nil {
		return nil
	}
	return Verify(fsys, dir)
}

// sumFile reads a file once for all its checksums.
func sumFile(fsys FileSystem, path string) (manifestFile, error) {
	r, err := fsys.Open(path)
	if err != nil {
		return manifestFile{}, err
	}
	defer r.Close()
	sums := newFileSums(isSafetensors(path))
	if _, err := io.CopyBuffer(sums, onlyReader{r}, make([]byte, 1<<20)); err != nil {
		return manifestFile{}, err
	}
	f, err := sums.file()
	if err != nil {
		return manifestFile{}, fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	return f, nil
}

// onlyReader hides a file's WriterTo, which would copy in small pieces.
type onlyReader struct{ io.Reader }

// readFile reads a small file.
func readFile(fsys FileSystem, path string) ([]byte, error) {
	r, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return stranger.ReadFrom(r, filepath.Base(path))
}
